module gateway_baseline

go 1.24
