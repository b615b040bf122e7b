package runner

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// sameWork finds for each job of a group the first one at the same patch: jobs that
// follow one are not made unless its result cannot be taken.
func sameWork(jobs Jobs, g *group) (followers map[int][]int, follows []bool, err error) {
	type work struct {
		patch      string
		repetition int
	}
	first := map[work]int{}
	followers, follows = map[int][]int{}, make([]bool, g.n)
	for i := g.first; i < g.first+g.n; i++ {
		if jobs.Empty(i) {
			continue
		}
		j, err := jobs.Job(i)
		if err != nil {
			return nil, nil, err
		}
		w := work{j.Prediction.SHA256(), j.Repetition}
		leader, ok := first[w]
		if !ok {
			first[w] = i
			continue
		}
		followers[leader], follows[i-g.first] = append(followers[leader], i), true
	}
	return followers, follows, nil
}

// follow makes the attempts that have waited for another one at the same; ended is its
// record. Where that says nothing of the patch, the next may be one that the rest can take.
// Where it does, and cannot be taken, all that are left have to be made, and none waits for
// another.
func (r *Runner) follow(ctx context.Context, g *errgroup.Group, jobs Jobs, leader ready, ended *reports.Attempt, keep func(int, *reports.Attempt)) (err error) {
	rest := leader.followers
	for len(rest) > 0 && ended != nil && ctx.Err() == nil && !settles(ended) {
		if ended, err = r.makeFollower(ctx, jobs, leader, rest[0], keep); err != nil {
			return err
		}
		rest = rest[1:]
	}
	for _, i := range rest {
		g.Go(func() error {
			if err := r.lanes.Acquire(ctx, 1); err != nil {
				return nil // the run has ended
			}
			defer r.lanes.Release(1)
			_, err := r.makeFollower(ctx, jobs, leader, i, keep)
			return err
		})
	}
	return nil
}

// settles reports whether an attempt at the same would end alike.
func settles(a *reports.Attempt) bool {
	return a.Outcome.Evaluated() || a.Outcome == grading.Ungradeable
}

// makeFollower makes one attempt from the image of the one it has followed, or as if it
// had followed none where that one had no need of an image.
func (r *Runner) makeFollower(ctx context.Context, jobs Jobs, leader ready, i int, keep func(int, *reports.Attempt)) (*reports.Attempt, error) {
	j, err := jobs.Job(i)
	if err != nil {
		return nil, err
	}
	rd := ready{index: i, batch: leader.batch, job: j, image: leader.image, err: leader.err, there: leader.there}
	if leader.standIn {
		if err := r.stand(ctx, &rd); err != nil {
			return nil, err
		}
		if !rd.standIn {
			rd.image, rd.standIn = leader.image, true // the result that the leader took may be taken
		}
	}
	return r.make(ctx, rd, keep)
}
