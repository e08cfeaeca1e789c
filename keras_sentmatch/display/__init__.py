"""What people look at: progress bars, tables, figures and pages."""
