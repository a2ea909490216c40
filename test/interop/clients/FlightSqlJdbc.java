// The Flight SQL JDBC driver. Arguments: the address of Flight SQL, and where that has TLS and keys the file of its certificate. The measurement
// `jdbc` is written before: see flight-jdbc.test.ts.
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Properties;

public class FlightSqlJdbc {
  interface Check {
    void run() throws Exception;
  }

  interface Read {
    Object of(ResultSet rows) throws SQLException;
  }

  static String url;
  static int ran;

  static void check(String title, Check check) {
    ran++;
    try {
      check.run();
      System.out.println("ok " + title);
    } catch (Throwable error) {
      StringBuilder text = new StringBuilder();
      for (Throwable cause = error; cause != null; cause = cause.getCause()) text.append(cause).append(" | ");
      for (StackTraceElement element : error.getStackTrace()) if (element.getClassName().startsWith("FlightSqlJdbc")) text.append(element).append(' ');
      System.out.println("not ok " + title + "\t\"" + text.toString().replace("\\", "\\\\").replace("\"", "'").replaceAll("\\s+", " ") + '"');
    }
  }

  static void equal(Object actual, Object expected) {
    if (!Objects.equals(actual, expected)) throw new AssertionError(actual + " is not " + expected);
  }

  static List<Object> all(ResultSet rows, Read read) throws SQLException {
    List<Object> found = new ArrayList<>();
    while (rows.next()) found.add(read.of(rows));
    rows.close();
    return found;
  }

  static String refused(Check check) throws Exception {
    try {
      check.run();
    } catch (SQLException | RuntimeException error) {
      // What fails while rows are read comes as the exception of Flight that it is.
      StringBuilder text = new StringBuilder();
      for (Throwable cause = error; cause != null; cause = cause.getCause()) text.append(cause.getMessage()).append('\n');
      return text.toString();
    }
    throw new AssertionError("no exception was thrown");
  }

  static Connection connect(String user, String password) throws SQLException {
    Properties properties = new Properties();
    properties.put("useEncryption", "false");
    if (user != null) {
      properties.put("user", user);
      properties.put("password", password);
    }
    return DriverManager.getConnection(url, properties);
  }

  static void statements(Connection connection) {
    check("Statement: select 1", () -> {
      try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("select 1")) {
        equal(all(rows, row -> row.getInt(1)), List.of(1));
      }
    });
    check("Statement: values of every type, and nulls", () -> {
      try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT * FROM jdbc ORDER BY _time")) {
        rows.next();
        equal(rows.getString("host"), "a");
        equal(rows.getDouble("f"), 1.5);
        equal(rows.getLong("i"), -9007199254740993L);
        equal(rows.getBoolean("b"), true);
        equal(rows.getString("s"), "ünï");
        equal(rows.getBigDecimal("d"), new BigDecimal("12.50"));
        equal(rows.getTimestamp("_time").getTime(), 1700000000123L);
        rows.next();
        equal(rows.getString("host"), "b");
        equal(rows.getObject("f"), null);
        equal(rows.getLong("i"), 0L);
        equal(rows.wasNull(), true);
        equal(rows.next(), false);
      }
    });
    check("Statement: execute, then the result", () -> {
      try (Statement statement = connection.createStatement()) {
        equal(statement.execute("SELECT count(*) AS n FROM jdbc"), true);
        equal(all(statement.getResultSet(), row -> row.getLong("n")), List.of(2L));
      }
    });
    check("Statement: metadata of a result", () -> {
      try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT host, f, i, d FROM jdbc")) {
        ResultSetMetaData meta = rows.getMetaData();
        List<Object> found = new ArrayList<>();
        for (int column = 1; column <= meta.getColumnCount(); column++) found.add(meta.getColumnLabel(column) + " " + meta.getColumnType(column));
        equal(found, List.of("host " + Types.VARCHAR, "f " + Types.DOUBLE, "i " + Types.BIGINT, "d " + Types.DECIMAL));
      }
    });
    check("Statement: 100,000 rows", () -> {
      try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT range AS n FROM range(100000) ORDER BY n")) {
        long expected = 0;
        while (rows.next()) equal(rows.getLong(1), expected++);
        equal(expected, 100000L);
      }
    });
    check("Statement: setMaxRows, setQueryTimeout", () -> {
      try (Statement statement = connection.createStatement()) {
        statement.setMaxRows(3);
        equal(all(statement.executeQuery("SELECT range FROM range(10)"), row -> row.getLong(1)).size(), 3);
      }
    });
    check("Statement: an error has the server's text, and the connection stays good", () -> {
      try (Statement statement = connection.createStatement()) {
        String text = refused(() -> statement.executeQuery("SELECT * FROM no_such_measurement"));
        equal(text.contains("no_such_measurement"), true);
        refused(() -> statement.executeQuery("DROP TABLE jdbc"));
        text = refused(() -> all(statement.executeQuery("SELECT * FROM range(100001)"), row -> row.getLong(1)));
        equal(text.contains("sql_max_rows"), true);
        equal(all(statement.executeQuery("SELECT 2"), row -> row.getInt(1)), List.of(2));
      }
    });
  }

  /** What tools such as DBeaver call beside the queries. */
  static void tools(Connection connection) {
    check("Connection: schema, catalog, warnings, isolation", () -> {
      equal(connection.isValid(5), true);
      connection.getSchema();
      connection.getCatalog();
      connection.getWarnings();
      connection.getTransactionIsolation();
      equal(connection.getAutoCommit(), true);
      DatabaseMetaData meta = connection.getMetaData();
      equal(all(meta.getSchemas("svc", "%"), row -> row.getString("TABLE_SCHEM")), List.of("main"));
      equal(all(meta.getTables("svc", "main", "jdbc", null), row -> row.getString("TABLE_NAME")), List.of("jdbc"));
      equal(all(meta.getTables("other", null, "jdbc", null), row -> row.getString("TABLE_NAME")), List.of());
      all(meta.getFunctions(null, null, "%"), row -> row.getString(1));
      all(meta.getProcedures(null, null, "%"), row -> row.getString(1));
      all(meta.getIndexInfo(null, null, "jdbc", false, true), row -> row.getString(1));
    });
    check("Connection: the catalog in the URL", () -> {
      Connection other = DriverManager.getConnection(url + "?useEncryption=false&catalog=svc");
      try (Statement statement = other.createStatement()) {
        equal(all(statement.executeQuery("SELECT 8"), row -> row.getInt(1)), List.of(8));
      }
      try {
        other.close();
      } catch (SQLException error) {
        // This driver closes its channel twice when there is a catalog: https://github.com/apache/arrow-java/issues/66.
        equal(error.getMessage(), "Channel shutdown invoked");
      }
      refused(() -> DriverManager.getConnection(url + "?useEncryption=false&catalog=other"));
    });
    check("Statement: cancel from another thread ends a query", () -> {
      try (Statement statement = connection.createStatement()) {
        long begun = System.nanoTime();
        Thread canceller = new Thread(() -> {
          try {
            Thread.sleep(700);
            statement.cancel();
          } catch (Exception error) {
            System.err.println(error);
          }
        });
        canceller.start();
        refused(() -> all(statement.executeQuery("SELECT count(*) FROM range(10000000) a, range(10000000) b"), row -> row.getLong(1)));
        // Left alone it would take days; a busy machine may take its time.
        equal(System.nanoTime() - begun < 60_000_000_000L, true);
      }
      try (Statement statement = connection.createStatement()) {
        equal(all(statement.executeQuery("SELECT 9"), row -> row.getInt(1)), List.of(9));
      }
    });
    check("Statement: an update of SQL is refused in words", () -> {
      try (Statement statement = connection.createStatement()) {
        equal(refused(() -> statement.executeUpdate("INSERT INTO jdbc VALUES (1)")).contains("only queries"), true);
      }
    });
    check("ResultSet: dates, times, lists, binary, decimals", () -> {
      String query = "SELECT DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 12:30:00' AS at, [1, 2] AS list, 'x'::BLOB AS bytes, 1.25::DECIMAL(38, 4) AS d, 1::HUGEINT AS h";
      try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(query)) {
        rows.next();
        equal(rows.getDate("day").toString(), "2024-02-29");
        equal(rows.getTimestamp("at").toString(), "2024-02-29 12:30:00.0");
        equal(rows.getArray("list") != null, true);
        equal(rows.getBytes("bytes").length, 1);
        equal(rows.getBigDecimal("d"), new BigDecimal("1.2500"));
        equal(rows.getBigDecimal("h"), new BigDecimal("1"));
      }
    });
    check("PreparedStatement: times and nulls as parameters", () -> {
      try (PreparedStatement statement = connection.prepareStatement("SELECT count(*) FROM jdbc WHERE _time >= ?")) {
        statement.setTimestamp(1, new java.sql.Timestamp(1700000001000L));
        equal(all(statement.executeQuery(), row -> row.getLong(1)), List.of(1L));
      }
      try (PreparedStatement statement = connection.prepareStatement("SELECT coalesce(?::VARCHAR, 'none')")) {
        statement.setNull(1, Types.VARCHAR);
        equal(all(statement.executeQuery(), row -> row.getString(1)), List.of("none"));
      }
    });
  }

  static void prepared(Connection connection) {
    check("PreparedStatement: parameters, several runs", () -> {
      try (PreparedStatement statement = connection.prepareStatement("SELECT i FROM jdbc WHERE host = ? AND f > ?")) {
        statement.setString(1, "a");
        statement.setDouble(2, 1.0);
        equal(all(statement.executeQuery(), row -> row.getLong(1)), List.of(-9007199254740993L));
        statement.setDouble(2, 2.0);
        equal(all(statement.executeQuery(), row -> row.getLong(1)), List.of());
      }
    });
    check("PreparedStatement: numbers, booleans, text", () -> {
      try (PreparedStatement statement = connection.prepareStatement("SELECT ?::BIGINT AS n, ?::BOOLEAN AS b, ?::VARCHAR AS s")) {
        statement.setLong(1, 5);
        statement.setBoolean(2, true);
        statement.setString(3, "text");
        equal(all(statement.executeQuery(), row -> row.getLong(1) + " " + row.getBoolean(2) + " " + row.getString(3)), List.of("5 true text"));
      }
    });
    check("PreparedStatement: without parameters, metadata before it runs", () -> {
      try (PreparedStatement statement = connection.prepareStatement("SELECT host, f FROM jdbc")) {
        equal(statement.getMetaData().getColumnCount(), 2);
        equal(statement.getParameterMetaData().getParameterCount(), 0);
        equal(all(statement.executeQuery(), row -> row.getString(1)).size(), 2);
      }
    });
    check("PreparedStatement: tells its parameters", () -> {
      try (PreparedStatement statement = connection.prepareStatement("SELECT i FROM jdbc WHERE host = ? AND f > ?")) {
        equal(statement.getParameterMetaData().getParameterCount(), 2);
      }
    });
    check("PreparedStatement: what does not parse is refused", () -> {
      equal(refused(() -> connection.prepareStatement("SELEC 1").executeQuery()).contains("SELEC"), true);
    });
  }

  static void catalog(Connection connection) throws SQLException {
    DatabaseMetaData meta = connection.getMetaData();
    check("DatabaseMetaData: product, version, what it can do", () -> {
      equal(meta.getDatabaseProductName().toLowerCase().contains("svc"), true);
      equal(meta.getDatabaseProductVersion().isEmpty(), false);
      equal(meta.isReadOnly(), false);
      equal(meta.supportsTransactions(), false);
      equal(meta.getIdentifierQuoteString(), "\"");
      meta.getSQLKeywords();
      meta.getNumericFunctions();
      meta.getMaxStatementLength();
      meta.supportsGroupBy();
      meta.supportsOuterJoins();
    });
    check("DatabaseMetaData: each of its values has the type that the driver reads", () -> {
      equal(meta.getDefaultTransactionIsolation(), Connection.TRANSACTION_NONE);
      for (Method method : DatabaseMetaData.class.getMethods()) {
        if (method.getParameterCount() > 0) continue;
        try {
          method.invoke(meta);
        } catch (InvocationTargetException error) {
          throw new AssertionError(method.getName(), error.getCause());
        }
      }
    });
    check("DatabaseMetaData: getCatalogs, getSchemas, getTableTypes", () -> {
      equal(all(meta.getCatalogs(), row -> row.getString("TABLE_CAT")).size(), 1);
      equal(all(meta.getSchemas(), row -> row.getString("TABLE_SCHEM")).isEmpty(), false);
      equal(all(meta.getTableTypes(), row -> row.getString("TABLE_TYPE")).contains("TABLE"), true);
    });
    check("DatabaseMetaData: getTables by name and by type", () -> {
      equal(all(meta.getTables(null, null, "jdb_", null), row -> row.getString("TABLE_NAME") + " " + row.getString("TABLE_TYPE")), List.of("jdbc TABLE"));
      equal(all(meta.getTables(null, null, "%", new String[] {"TABLE"}), row -> row.getString("TABLE_NAME")).contains("jdbc"), true);
      equal(all(meta.getTables(null, null, "%", new String[] {"VIEW"}), row -> row.getString("TABLE_NAME")), List.of());
    });
    check("DatabaseMetaData: getColumns", () -> {
      equal(
          all(meta.getColumns(null, null, "jdbc", "%"), row -> row.getString("COLUMN_NAME") + " " + row.getInt("DATA_TYPE")),
          List.of("_time " + Types.TIMESTAMP, "host " + Types.VARCHAR, "f " + Types.DOUBLE, "i " + Types.BIGINT, "b " + Types.BOOLEAN, "s " + Types.VARCHAR, "d " + Types.DECIMAL));
      equal(all(meta.getColumns(null, null, "jdbc", "h%"), row -> row.getString("COLUMN_NAME")), List.of("host"));
    });
    check("DatabaseMetaData: keys are none", () -> {
      equal(all(meta.getPrimaryKeys(null, null, "jdbc"), row -> row.getString(1)), List.of());
      equal(all(meta.getImportedKeys(null, null, "jdbc"), row -> row.getString(1)), List.of());
      equal(all(meta.getExportedKeys(null, null, "jdbc"), row -> row.getString(1)), List.of());
      equal(all(meta.getCrossReference(null, null, "jdbc", null, null, "jdbc"), row -> row.getString(1)), List.of());
    });
    check("DatabaseMetaData: getTypeInfo, which the driver does not ask the server for", () -> all(meta.getTypeInfo(), row -> row.getString("TYPE_NAME")));
  }

  static void secured(String certificate) {
    String options = "?useEncryption=true&tlsRootCerts=" + certificate;
    for (String word : List.of("writer", "reader")) {
      check("TLS, the user's password is the key " + word, () -> {
        try (Connection connection = DriverManager.getConnection(url + options, "anybody", word); Statement statement = connection.createStatement()) {
          equal(all(statement.executeQuery("SELECT 5"), row -> row.getInt(1)), List.of(5));
        }
      });
    }
    check("TLS, a token", () -> {
      try (Connection connection = DriverManager.getConnection(url + options + "&token=reader"); Statement statement = connection.createStatement()) {
        equal(all(statement.executeQuery("SELECT 6"), row -> row.getInt(1)), List.of(6));
      }
    });
    check("TLS, wrong keys and none", () -> {
      refused(() -> DriverManager.getConnection(url + options, "anybody", "wrong"));
      for (String more : List.of("&token=wrong", "")) {
        String text = refused(() -> {
          try (Connection connection = DriverManager.getConnection(url + options + more); Statement statement = connection.createStatement()) {
            all(statement.executeQuery("SELECT 7"), row -> row.getInt(1));
          }
        });
        equal(text.contains("no key that is known"), true);
      }
    });
  }

  public static void main(String[] args) throws Exception {
    url = "jdbc:arrow-flight-sql://" + args[0] + "/";
    if (args.length > 1) {
      secured(args[1]);
      end();
    }
    try (Connection connection = connect(null, null)) {
      statements(connection);
      prepared(connection);
      catalog(connection);
      tools(connection);
    }
    check("a user and a password", () -> {
      try (Connection connection = connect("user", "password"); Statement statement = connection.createStatement()) {
        equal(all(statement.executeQuery("SELECT 3"), row -> row.getInt(1)), List.of(3));
        equal(connection.isValid(5), true);
      }
    });
    check("a token, and metadata of the caller's own", () -> {
      String options = "?useEncryption=false&token=secret&x-namespace=default";
      try (Connection connection = DriverManager.getConnection(url + options); Statement statement = connection.createStatement()) {
        equal(all(statement.executeQuery("SELECT 4"), row -> row.getInt(1)), List.of(4));
      }
    });
    end();
  }

  static void end() {
    System.out.println("end " + ran);
    System.exit(0);
  }
}
