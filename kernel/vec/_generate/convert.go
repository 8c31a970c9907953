package main

func convert() []routine   { return nil }
func transpose() []routine { return nil }
