package datasets

// Prediction is one model's patch for one instance.
type Prediction struct {
	InstanceID string
	Model      string // model_name_or_path
	// Patch is model_patch as given, byte for byte; nil when null or absent, or when it
	// was read with a Spool: Text is right for all.
	Patch  *string
	Source Position

	stored *stored
}

// Empty reports whether there is nothing to apply: null, "" or only white space.
func (p *Prediction) Empty() bool {
	if p.stored != nil {
		return p.stored.empty
	}
	if p.Patch == nil {
		return true
	}
	for _, r := range *p.Patch {
		switch r {
		case ' ', '\t', '\r', '\n', '\v', '\f', '\ufeff':
		default:
			return false
		}
	}
	return true
}
