"""The methods: what a record of one says, how one is fitted, and a folder for each."""
