"""The source: offsets planned on the driver, ranges read by tasks straight into Arrow."""
