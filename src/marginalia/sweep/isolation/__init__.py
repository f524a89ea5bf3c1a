"""The processes of a job: one that fits, and one that ends it when it hangs or grows, and begins another."""
