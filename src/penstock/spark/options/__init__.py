"""What a job may say with `.option(...)`: read into typed values, refused where it is wrong."""
