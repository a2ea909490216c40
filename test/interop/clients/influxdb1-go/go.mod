module influxdb1-go

go 1.22

require github.com/influxdata/influxdb1-client v0.0.0-20220302092344-a9ab5670611c
