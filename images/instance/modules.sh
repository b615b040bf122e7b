# The install step fetches what it compiles; hidden tests may compile more. What
# one instance has fetched, the next takes from the folder all builds share.
find . -name go.mod -not -path '*/testdata/*' -not -path '*/vendor/*' | while read -r file; do
  (
    cd "$(dirname "$file")"
    GOMODCACHE=/mnt/modules go mod download
    GOPROXY=file:///mnt/modules/cache/download go mod download || go mod download
  )
done
