"""The ports behind which every effect of the provider lives, each with the data that crosses it."""
