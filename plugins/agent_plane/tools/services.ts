/** What tools have of the node, in one namespace. */
import { PROMQL_QUERIES, type PromqlQueries, type Svc } from 'svcdb'
import { EffectError, type Json, type ToolPoint, type ToolServices } from 'svcdb/agents'
import type { AddressGuard } from 'svcdb/lib/egress'
import { moduleUrl } from 'svcdb/lib/modules'
import { callHttp } from './http.ts'
import type { SqlToolArgs, SqlToolRows } from './sql-job.ts'

const JOB = moduleUrl('./sql-job.ts', import.meta.url)
const MAX_ROWS = 1000
const MAX_CHARACTERS = 1 << 18
const MAX_POINTS = 1000
const SECOND = 1000
const MILLION = 1_000_000n

interface ToolOptions {
  /** The only one that they read and write. */
  namespace: string
  /** Of the agent, for the context of its writes. */
  name: string
  guard: AddressGuard
  timeoutMs: number
  hosts?: readonly string[]
}

export function toolServices(svc: Svc, { namespace, name, guard, timeoutMs, hosts }: ToolOptions): ToolServices {
  const context = () => svc.systemContext(namespace, { name })
  return {
    http: (call) => callHttp(call, { guard, timeoutMs, ...(hosts === undefined ? {} : { hosts }) }),
    sql: (query, parameters = []) => reading(async () => sql(svc, (await context()).dataNamespace, query, parameters)),
    promql: (query, at = {}) =>
      reading(async () => {
        const queries = svc.find<PromqlQueries>(PROMQL_QUERIES)
        if (queries === undefined) throw missing('the plugin "promql" is not loaded')
        const when =
          'start' in at
            ? { start: at.start * SECOND, end: at.end * SECOND, step: at.step * SECOND }
            : { time: at.time === undefined ? svc.clock.now() : at.time * SECOND }
        const answer = (await queries.query((await context()).dataNamespace, query, when)) as { data: Json }
        return answer.data
      }),
    write: (points) => write(svc, context, points),
    env(variable) {
      const value = process.env[variable]
      if (value === undefined || value === '') throw missing(`the variable ${variable} is not set`)
      return value
    },
  }
}

function missing(why: string): EffectError {
  return new EffectError(`cannot use it: ${why}`, { disposition: 'did_not_happen', permanent: true })
}

/** What is wrong with a statement is wrong again the next time. */
async function reading<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (error) {
    if (error instanceof EffectError) throw error
    const { code = '', message } = error as { code?: string; message: string }
    const passing = ['BACKPRESSURE', 'OVERLOADED', 'DATABASE_CLOSED', 'QUERY_TIMEOUT', 'RATE_LIMITED'].includes(code)
    throw new EffectError(message, { disposition: 'did_not_happen', permanent: !passing })
  }
}

async function sql(
  svc: Svc,
  namespace: string,
  query: string,
  parameters: SqlToolArgs['parameters'],
): Promise<{ columns: string[]; rows: Json[][]; truncated: boolean }> {
  if (!svc.storage.capabilities.has('sql')) throw missing('the storage engine has no SQL')
  const args: SqlToolArgs = { namespace, query, parameters, maxRows: MAX_ROWS, maxCharacters: MAX_CHARACTERS }
  const timeout = { timeoutMs: svc.server.sql_query_timeout_secs * SECOND, timeoutSetting: 'server.sql_query_timeout_secs' }
  const job = svc.storage.run<SqlToolRows>(JOB, args, { namespace, ...timeout })
  job.result.catch(() => {}) // the output fails with the same error
  for await (const _ of job.output);
  const { columns, text, truncated } = await job.result
  return { columns, rows: JSON.parse(`[${text}]`, exact) as Json[][], truncated }
}

/** Integers that a number does not hold exactly are given as their digits. */
function exact(_key: string, value: unknown, context?: { source?: string }): unknown {
  return typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) ? context?.source : value
}

async function write(svc: Svc, context: () => ReturnType<Svc['systemContext']>, points: readonly ToolPoint[]): Promise<{ written: number }> {
  if (points.length > MAX_POINTS) throw missing(`it writes ${points.length} points, and ${MAX_POINTS} is the limit of a call`)
  try {
    const writer = svc.ingest.points(await context())
    for (const { measurement, tags = {}, fields, time } of points) writer.add(measurement, tags, fields, BigInt(Math.trunc(time)) * MILLION)
    await writer.write()
    return { written: points.length }
  } catch (error) {
    const { code = '', message } = error as { code?: string; message: string }
    // A repeated point is the same point: whatever became of it, it may be written again.
    const passing = ['BACKPRESSURE', 'OVERLOADED', 'DATABASE_CLOSED', 'WRITE_TIMEOUT', 'STORAGE_FULL', 'RATE_LIMITED'].includes(code)
    throw new EffectError(message, { disposition: code === 'WRITE_TIMEOUT' ? 'in_doubt' : 'did_not_happen', permanent: !passing })
  }
}
