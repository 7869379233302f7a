module github.com/fusebox-go/fusebox

go 1.26
