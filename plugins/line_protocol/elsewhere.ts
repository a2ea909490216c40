/** What InfluxDB, QuestDB, OpenTSDB and VictoriaMetrics answer, and svc does not, or elsewhere: users who come from there try these paths first. */
const OPENTSDB = 'OpenTSDB is not spoken; write line protocol, by POST /write'
const SQL = 'queries are SQL, by POST /api/v1/svc/sql of plugin sql'
const ORGANIZATIONS = 'organizations and users are not kept: any bucket can be written to, with an API key of plugin api_keys where there are keys'

export const ELSEWHERE: Readonly<Record<string, string>> = {
  '/api/v2/query': `Flux is not answered; ${SQL}`,
  '/api/v2/orgs': ORGANIZATIONS,
  '/api/v2/users': ORGANIZATIONS,
  '/api/v2/setup': ORGANIZATIONS,
  '/api/v2/signin': ORGANIZATIONS,
  '/api/v2/authorizations': ORGANIZATIONS,
  '/api/v2/buckets': 'buckets are not kept: any can be written to, and what its name means says line_protocol.database',
  '/api/v2': 'of InfluxDB 2 writes, deletes by time and predicate and the list of buckets are answered',
  '/api/v3/query_sql': SQL,
  '/api/v3/query_influxql': `InfluxQL is not answered; ${SQL}`,
  '/exec': SQL,
  '/exp': SQL,
  '/imp': 'lines are written by POST /write, tables such as CSV by Arrow Flight SQL of plugin flight_sql',
  '/api/put': OPENTSDB,
  '/opentsdb': OPENTSDB,
  '/influx': 'line protocol is written by POST /write or /api/v2/write, without a prefix',
}
