// The client of InfluxDB 2 for Go: how it asks whether a server is there, writes, deletes, and takes errors. Arguments: the URL, and
// the name of a check if only that one is wanted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	influxdb2 "github.com/influxdata/influxdb-client-go/v2"
	"github.com/influxdata/influxdb-client-go/v2/api/http"
	"github.com/influxdata/influxdb-client-go/v2/api/write"
)

var ctx = context.Background()

const org, bucket = "any", "plant"

func main() {
	checks := []struct {
		name string
		run  func(string) error
	}{
		{"health, ready and ping", alive}, {"finds the bucket", buckets}, {"writes points, gzip and plain", blocking}, {"writes in four precisions", precisions},
		{"deletes by predicate", remove}, {"says why a line is refused", refused}, {"background", background},
	}
	ran := 0
	for _, check := range checks {
		if len(os.Args) > 2 && os.Args[2] != check.name {
			continue
		}
		ran++
		if err := check.run(os.Args[1]); err != nil {
			reason, _ := json.Marshal(err.Error())
			fmt.Printf("not ok %s\t%s\n", check.name, reason)
		} else {
			fmt.Printf("ok %s\n", check.name)
		}
	}
	fmt.Printf("end %d\n", ran)
}

func alive(url string) error {
	c := influxdb2.NewClient(url, "any")
	defer c.Close()
	health, err := c.Health(ctx)
	if err != nil || health.Status != "pass" {
		return fmt.Errorf("health %v: %v", health, err)
	}
	ready, err := c.Ready(ctx)
	if err != nil || ready.Status == nil || *ready.Status != "ready" {
		return fmt.Errorf("ready %v: %v", ready, err)
	}
	if there, err := c.Ping(ctx); err != nil || !there {
		return fmt.Errorf("ping %v: %v", there, err)
	}
	return nil
}

func buckets(url string) error {
	c := influxdb2.NewClient(url, "any")
	defer c.Close()
	found, err := c.BucketsAPI().FindBucketByName(ctx, bucket)
	if err == nil && found.Name != bucket {
		return fmt.Errorf("found %s", found.Name)
	}
	return err
}

func point(measurement, host string, at time.Time) *write.Point {
	fields := map[string]interface{}{"f": 1.5, "i": int64(-7), "u": uint64(18446744073709551615), "s": "a \"q\" \\ b", "b": true}
	return influxdb2.NewPoint(measurement, map[string]string{"host": host, "odd": "a b,c=d"}, fields, at)
}

func blocking(url string) error {
	for _, gzip := range []bool{false, true} {
		c := influxdb2.NewClientWithOptions(url, "any", influxdb2.DefaultOptions().SetUseGZip(gzip))
		err := c.WriteAPIBlocking(org, bucket).WritePoint(ctx, point("go2", fmt.Sprint("gzip ", gzip), time.Now()))
		c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func precisions(url string) error {
	for _, precision := range []time.Duration{time.Nanosecond, time.Microsecond, time.Millisecond, time.Second} {
		c := influxdb2.NewClientWithOptions(url, "any", influxdb2.DefaultOptions().SetPrecision(precision))
		at := time.Now().Truncate(time.Second)
		err := c.WriteAPIBlocking(org, bucket).WriteRecord(ctx, fmt.Sprintf("go2_precision,p=%s at=%di %d", precision, at.UnixNano(), at.UnixNano()/int64(precision)))
		c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Batches in the background, over a time in which those that the server refuses for a moment are due again.
func background(url string) error {
	options := influxdb2.DefaultOptions().SetBatchSize(50).SetFlushInterval(100).SetRetryInterval(50).SetMaxRetryInterval(100)
	c := influxdb2.NewClientWithOptions(url, "any", options)
	w := c.WriteAPI(org, bucket)
	at := time.Now()
	for n := range 500 {
		w.WritePoint(point("go2_background", "h", at.Add(time.Duration(n))))
		if n%50 == 49 {
			time.Sleep(150 * time.Millisecond)
		}
	}
	w.Flush()
	c.Close()
	return nil
}

func remove(url string) error {
	c := influxdb2.NewClient(url, "any")
	defer c.Close()
	w := c.WriteAPIBlocking(org, bucket)
	now := time.Now()
	if err := w.WritePoint(ctx, point("go2_delete", "goes", now), point("go2_delete", "stays", now)); err != nil {
		return err
	}
	return c.DeleteAPI().DeleteWithName(ctx, org, bucket, now.Add(-time.Hour), now.Add(time.Hour), `_measurement="go2_delete" AND host="goes"`)
}

func refused(url string) error {
	c := influxdb2.NewClient(url, "any")
	defer c.Close()
	err := c.WriteAPIBlocking(org, bucket).WriteRecord(ctx, "go2 f=warm")
	var answer *http.Error
	if !errors.As(err, &answer) {
		return fmt.Errorf("no error of the server: %v", err)
	}
	if answer.StatusCode != 400 || !strings.HasPrefix(answer.Message, "unable to parse 'go2 f=warm'") {
		return fmt.Errorf("%d %q %q", answer.StatusCode, answer.Code, answer.Message)
	}
	return nil
}
