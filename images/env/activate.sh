# conda's shell activation, as far as evaluation scripts use it.
_evalrun_prefix=/opt/miniconda3
conda() {
  case "${1:-}" in
    activate)
      local name=${2:-base} prefix=$_evalrun_prefix
      [ "$name" = base ] || prefix=$_evalrun_prefix/envs/$name
      if [ ! -d "$prefix" ]; then echo "EnvironmentNameNotFound: Could not find conda environment: $name" >&2; return 1; fi
      conda deactivate
      export PATH="$prefix/bin:$PATH" CONDA_PREFIX="$prefix" CONDA_DEFAULT_ENV="$name" CONDA_SHLVL=1
      [ "$name" = base ] || export VIRTUAL_ENV="$prefix"
      ;;
    deactivate)
      if [ -n "${CONDA_PREFIX:-}" ]; then
        PATH=$(printf '%s' "$PATH" | sed "s#$CONDA_PREFIX/bin:##g")
        unset CONDA_PREFIX CONDA_DEFAULT_ENV VIRTUAL_ENV
      fi
      ;;
    *) echo "conda: only activate and deactivate exist in this image (asked: $*)" >&2; return 1 ;;
  esac
}
conda activate base
