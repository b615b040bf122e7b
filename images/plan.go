package images

import "sort"

// Plan is the set of images a run needs, each once.
type Plan struct {
	Bases     map[string]BaseSpec
	Envs      map[string]EnvSpec
	Instances map[string]InstanceSpec
}

// NewPlan de-duplicates the layers of the given instances.
func NewPlan(specs []InstanceSpec) *Plan {
	p := &Plan{
		Bases: map[string]BaseSpec{}, Envs: map[string]EnvSpec{},
		Instances: map[string]InstanceSpec{},
	}
	for _, s := range specs {
		key := s.Key()
		if _, ok := p.Instances[key]; ok {
			continue
		}
		p.Instances[key] = s
		if s.Dockerfile != "" {
			continue
		}
		p.Envs[s.Env.Key()] = s.Env
		p.Bases[s.Env.Base.Key()] = s.Env.Base
	}
	return p
}

// Keys returns the keys of one kind, sorted.
func (p *Plan) Keys(kind Kind) []string {
	var keys []string
	switch kind {
	case Base:
		for k := range p.Bases {
			keys = append(keys, k)
		}
	case Env:
		for k := range p.Envs {
			keys = append(keys, k)
		}
	case Instance:
		for k := range p.Instances {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	return keys
}
