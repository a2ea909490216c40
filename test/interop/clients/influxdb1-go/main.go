// The client of InfluxDB 1 for Go, which k6 and others use: it sends an empty Content-Type. Argument: the URL.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	client "github.com/influxdata/influxdb1-client/v2"
)

func main() {
	checks := []struct {
		name string
		run  func(client.Client) error
	}{{"ping", ping}, {"creates a database", create}, {"writes points", write}}
	for _, check := range checks {
		c, err := client.NewHTTPClient(client.HTTPConfig{Addr: os.Args[1], Username: "any", Password: "any"})
		if err == nil {
			err = check.run(c)
		}
		if err != nil {
			reason, _ := json.Marshal(err.Error())
			fmt.Printf("not ok %s\t%s\n", check.name, reason)
		} else {
			fmt.Printf("ok %s\n", check.name)
		}
	}
	fmt.Printf("end %d\n", len(checks))
}

func ping(c client.Client) error {
	_, version, err := c.Ping(time.Second)
	if err == nil && version == "" {
		return fmt.Errorf("no version")
	}
	return err
}

func create(c client.Client) error {
	answer, err := c.Query(client.NewQuery(`CREATE DATABASE "k6"`, "", ""))
	if err != nil {
		return err
	}
	return answer.Error()
}

func write(c client.Client) error {
	batch, err := client.NewBatchPoints(client.BatchPointsConfig{Database: "k6", Precision: "ns"})
	if err != nil {
		return err
	}
	point, err := client.NewPoint("http_reqs", map[string]string{"url": "http://a b/"}, map[string]interface{}{"value": 1.5, "n": 2}, time.Now())
	if err != nil {
		return err
	}
	batch.AddPoint(point)
	return c.Write(batch)
}
