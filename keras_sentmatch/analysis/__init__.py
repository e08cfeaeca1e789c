"""Looking at a matcher's answers: by linguistic category, beside baselines, beside another matcher's."""
