/** Everything a data directory answers, as JSON: what a sample must still answer when newer code opens it. */
import { createHash } from 'node:crypto'
import { jobModule } from '../../storage/conformance/context.ts'
import { lines } from '../../storage/conformance/points.ts'
import type { EmbeddedEngine } from '../../storage/embedded/engine.ts'

export const NAMESPACES = ['default', 'plant', '']
export const OWNERS = ['tasks', 'task', 'empty']
/** Longer answers are kept as their number of lines and a hash. */
const KEPT_LINES = 60
const SQL = 'SELECT host, count(*) AS n, min(temp) AS low, max(temp) AS high, sum(hits) AS hits FROM machine GROUP BY host ORDER BY host'

export interface Answers {
  measurements: Record<string, unknown>
  points: Record<string, Record<string, string[]>>
  state: Record<string, unknown>
  sql: string
  /** Of measurement `odd`, which has NaN and infinities; samples of version 1 lack it. */
  samples?: string[]
}

export async function answers(engine: EmbeddedEngine): Promise<Answers> {
  const found: Answers = { measurements: {}, points: {}, state: {}, sql: await sql(engine) }
  for (const namespace of NAMESPACES) {
    const known = (await engine.measurements(namespace)).sort((a, b) => (a.name < b.name ? -1 : 1))
    found.measurements[namespace] = known
    found.points[namespace] = {}
    for (const { name } of known) found.points[namespace][name] = shortened(await lines(engine, { namespace, measurement: name }))
  }
  if ((await engine.measurements('default')).some(({ name }) => name === 'odd')) found.samples = await samples(engine)
  for (const owner of OWNERS) found.state[owner] = await engine.state(owner).list()
  return JSON.parse(JSON.stringify(found)) as Answers
}

function shortened(all: string[]): string[] {
  return all.length <= KEPT_LINES ? all : [`${all.length} lines, sha256 ${createHash('sha256').update(all.join('\n')).digest('hex')}`]
}

async function sql(engine: EmbeddedEngine): Promise<string> {
  const job = engine.run<string>(new URL('./sql-job.ts', import.meta.url), { namespace: 'default', query: SQL })
  for await (const _ of job.output) throw new Error('the job emits nothing')
  return job.result
}

async function samples(engine: EmbeddedEngine): Promise<string[]> {
  const { lines } = await engine.run<{ lines: string[] }>(jobModule('samples'), { namespace: 'default', measurement: 'odd', field: 'value' }).result
  return lines
}
