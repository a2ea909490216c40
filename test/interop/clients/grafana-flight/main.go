// The calls that Grafana's Flight SQL data source makes, in its order and with the client library that it is built on.
// Argument: the address of Flight SQL. Its measurement `panel` is written before: see grafana-flight.test.ts.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

var ran int

func check(title string, run func() error) {
	ran++
	if err := run(); err != nil {
		reason, _ := json.Marshal(err.Error())
		fmt.Printf("not ok %s\t%s\n", title, reason)
		return
	}
	fmt.Printf("ok %s\n", title)
}

// frame converts as the data source does: any other type is a column that a panel does not show.
func frame(column arrow.Array, row int) (any, error) {
	if column.IsNull(row) {
		return nil, nil
	}
	switch typed := column.(type) {
	case *array.String:
		return typed.Value(row), nil
	case *array.Float64:
		return typed.Value(row), nil
	case *array.Uint32:
		return typed.Value(row), nil
	case *array.Int64:
		return typed.Value(row), nil
	case *array.Boolean:
		return typed.Value(row), nil
	case *array.Timestamp:
		if unit := typed.DataType().(*arrow.TimestampType).Unit; unit != arrow.Nanosecond {
			return nil, fmt.Errorf("a timestamp in %s", unit)
		}
		return int64(typed.Value(row)), nil
	case *array.DenseUnion:
		return frame(typed.Field(typed.ChildID(row)), int(typed.ValueOffset(row)))
	}
	return nil, fmt.Errorf("the data source does not know the type %s", column.DataType())
}

type result struct {
	names []string
	rows  [][]any
}

func read(ctx context.Context, client *flightsql.Client, info *flight.FlightInfo, err error) (*result, error) {
	if err != nil {
		return nil, err
	}
	if len(info.Endpoint) != 1 {
		return nil, fmt.Errorf("%d endpoints, the data source takes exactly one", len(info.Endpoint))
	}
	reader, err := client.DoGet(ctx, info.Endpoint[0].Ticket)
	if err != nil {
		return nil, err
	}
	defer reader.Release()
	out := &result{}
	for _, field := range reader.Schema().Fields() {
		out.names = append(out.names, field.Name)
	}
	for reader.Next() {
		batch := reader.RecordBatch()
		for row := 0; row < int(batch.NumRows()); row++ {
			values := make([]any, batch.NumCols())
			for index := range values {
				if values[index], err = frame(batch.Column(index), row); err != nil {
					return nil, fmt.Errorf("column %s: %w", out.names[index], err)
				}
			}
			out.rows = append(out.rows, values)
		}
	}
	return out, reader.Err()
}

func equal(actual, expected any) error {
	if a, b := fmt.Sprintf("%#v", actual), fmt.Sprintf("%#v", expected); a != b {
		return fmt.Errorf("%s is not %s", a, b)
	}
	return nil
}

func main() {
	client, err := flightsql.NewClient(os.Args[1], nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	login, token := ctx, metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer secret", "x-namespace", "default")

	check("a user and a password get a bearer token", func() error {
		login, err = client.Client.AuthenticateBasicToken(ctx, "user", "password")
		if err != nil {
			return err
		}
		sent, _ := metadata.FromOutgoingContext(login)
		if values := sent.Get("authorization"); len(values) != 1 || !strings.HasPrefix(values[0], "Bearer ") {
			return fmt.Errorf("authorization is %v", values)
		}
		return nil
	})
	for index, with := range []context.Context{login, token} {
		check("save and test with "+[]string{"that token", "one that was configured"}[index]+": select 1", func() error {
			info, err := client.Execute(with, "select 1")
			found, err := read(with, client, info, err)
			if err != nil {
				return err
			}
			return equal(len(found.rows), 1)
		})
	}
	ctx = token
	check("builder: the tables", func() error {
		info, err := client.GetTables(ctx, &flightsql.GetTablesOpts{TableTypes: []string{"BASE TABLE", "table"}})
		found, err := read(ctx, client, info, err)
		if err != nil {
			return err
		}
		for _, row := range found.rows {
			if row[2] == "panel" {
				return nil
			}
		}
		return fmt.Errorf("panel is not in %v", found.rows)
	})
	check("builder: the columns of a table", func() error {
		name := "panel"
		info, err := client.GetTables(ctx, &flightsql.GetTablesOpts{TableNameFilterPattern: &name, IncludeSchema: true})
		if err != nil {
			return err
		}
		reader, err := client.DoGet(ctx, info.Endpoint[0].Ticket)
		if err != nil {
			return err
		}
		defer reader.Release()
		var columns []string
		for reader.Next() {
			batch := reader.RecordBatch()
			at := batch.Schema().FieldIndices("table_schema")[0]
			for row := 0; row < int(batch.NumRows()); row++ {
				schema, err := flight.DeserializeSchema(batch.Column(at).(*array.Binary).Value(row), nil)
				if err != nil {
					return err
				}
				for _, field := range schema.Fields() {
					columns = append(columns, field.Name+" "+field.Type.String())
				}
			}
		}
		if reader.Err() != nil {
			return reader.Err()
		}
		return equal(columns, []string{"_time timestamp[ns]", "host utf8", "v float64", "n int64", "ok bool"})
	})
	check("macros: GetSqlInfo of everything", func() error {
		info, err := client.GetSqlInfo(ctx, []flightsql.SqlInfo{})
		if err != nil {
			return err
		}
		reader, err := client.DoGet(ctx, info.Endpoint[0].Ticket)
		if err != nil {
			return err
		}
		defer reader.Release()
		names := map[uint32]bool{}
		for reader.Next() {
			batch := reader.RecordBatch()
			if _, isUnion := batch.Column(1).(*array.DenseUnion); !isUnion {
				return fmt.Errorf("value is %s", batch.Column(1).DataType())
			}
			for row := 0; row < int(batch.NumRows()); row++ {
				names[batch.Column(0).(*array.Uint32).Value(row)] = true
			}
		}
		if reader.Err() == nil && len(names) < 50 {
			return fmt.Errorf("only %d values: %v", len(names), names)
		}
		return reader.Err()
	})
	check("panel: a time series", func() error {
		query := "SELECT _time AS time, host, v, n, ok FROM panel WHERE _time >= TIMESTAMP '2023-11-14T22:13:20Z' AND _time < TIMESTAMP '2023-11-14T22:14:20Z' ORDER BY _time"
		info, err := client.Execute(ctx, query)
		found, err := read(ctx, client, info, err)
		if err != nil {
			return err
		}
		if err := equal(found.names, []string{"time", "host", "v", "n", "ok"}); err != nil {
			return err
		}
		return equal(found.rows, [][]any{
			{int64(1700000000000000000), "a", 1.5, int64(1), true},
			{int64(1700000010000000000), "b", 2.5, nil, false},
		})
	})
	check("panel: groups by time, counts and averages are of types that it knows", func() error {
		query := "SELECT time_bucket(INTERVAL '1 minute', _time) AS time, host, count(*) AS n, avg(v) AS v, max(n) AS m FROM panel GROUP BY 1, 2 ORDER BY 2"
		info, err := client.Execute(ctx, query)
		found, err := read(ctx, client, info, err)
		if err != nil {
			return err
		}
		return equal(found.rows, [][]any{
			{int64(1700000000000000000 - 20_000_000_000), "a", int64(1), 1.5, int64(1)},
			{int64(1700000000000000000 - 20_000_000_000), "b", int64(1), 2.5, nil},
		})
	})
	check("panel: what its macros dateBin, timeFrom, timeTo, timeRange and timeGroup write", func() error {
		query := "SELECT date_bin(interval '60 second', _time, timestamp '1970-01-01T00:00:00Z') AS time, count(*) AS n, max(datepart('minute', _time)) AS m FROM panel" +
			" WHERE _time >= cast('2023-11-14T22:13:20Z' as timestamp) AND _time <= cast('2023-11-14T22:14:20Z' as timestamp)" +
			" AND _time >= '2023-11-14T22:13:20Z' AND _time <= '2023-11-14T22:14:20Z' GROUP BY 1"
		info, err := client.Execute(ctx, query)
		found, err := read(ctx, client, info, err)
		if err != nil {
			return err
		}
		return equal(found.rows, [][]any{{int64(1700000000000000000 - 20_000_000_000), int64(2), int64(13)}})
	})
	check("panel: an error of SQL is the server's text", func() error {
		_, err := client.Execute(ctx, "SELECT * FROM no_such_measurement")
		if err == nil || !strings.Contains(err.Error(), "no_such_measurement") {
			return fmt.Errorf("the error is %v", err)
		}
		return nil
	})
	check("prepared: parameters by the Go client", func() error {
		statement, err := client.Prepare(ctx, "SELECT v FROM panel WHERE host = ?")
		if err != nil {
			return err
		}
		defer statement.Close(ctx)
		builder := array.NewStringBuilder(memory.DefaultAllocator)
		builder.Append("b")
		values := builder.NewArray()
		schema := arrow.NewSchema([]arrow.Field{{Name: "0", Type: arrow.BinaryTypes.String}}, nil)
		statement.SetParameters(array.NewRecordBatch(schema, []arrow.Array{values}, 1))
		info, err := statement.Execute(ctx)
		found, err := read(ctx, client, info, err)
		if err != nil {
			return err
		}
		return equal(found.rows, [][]any{{2.5}})
	})
	fmt.Printf("end %d\n", ran)
}
