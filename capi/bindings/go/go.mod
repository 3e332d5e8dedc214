module assay

go 1.19
