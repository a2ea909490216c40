/** The first time at which a measurement has a row. */
import type { Reader } from 'svcdb'

interface FirstTimeRequest {
  namespace: string
  measurement: string
  start: bigint | undefined
  end: bigint
}

/** @param sql statements can be run; otherwise all rows of the range are gone through. */
export async function firstTime(reader: Reader, { namespace, measurement, start, end }: FirstTimeRequest, sql: boolean): Promise<bigint | undefined> {
  if (!sql) {
    let first: bigint | undefined
    for await (const { times } of reader.scan({ namespace, measurement, end, ...(start === undefined ? {} : { start }) })) {
      if (times.length > 0 && (first === undefined || times[0] < first)) first = times[0]
    }
    return first
  }
  const name = `"${measurement.replaceAll('"', '""')}"`
  const query = start === undefined ? `SELECT min(_time) FROM ${name} WHERE _time < ?` : `SELECT min(_time) FROM ${name} WHERE _time < ? AND _time >= ?`
  const parameters = [{ timestamp: end }, ...(start === undefined ? [] : [{ timestamp: start }])]
  const cursor = await reader.sql({ namespace, query, parameters })
  for await (const { rows, columns } of cursor) {
    const [{ values, validity }] = columns
    if (rows > 0 && (validity === undefined || validity[0] === 1)) return values[0] as bigint
  }
  return undefined
}
