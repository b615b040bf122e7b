// Package demo is the bundled demo dataset: four small repositories of our own
// in Python, Go, JavaScript and C, each with little bugs, their fixes, hidden
// tests, and predictions that end in every way a prediction can end.
//
// It hands out the dataset and its predictions as the files a user would have
// ([WriteTo]) and makes the repositories they are about ([Materialize]), so a
// demo needs neither a container registry nor a code hosting site.
//
// It must not know how datasets are loaded, how images are built or how patches
// are graded: to the rest of the program its instances are like any others.
package demo
