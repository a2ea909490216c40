/** What a dashboard asks while the soak writes, one question after the other, and what is deleted meanwhile. */
import { hostName } from './load.ts'

const RANGE_SECS = 300
const STEP_SECS = 15
/** A question that takes longer has failed. */
const TIMEOUT_MS = 60_000

export interface Question {
  name: string
  ask(url: string): Promise<void>
}

export const PROMQL_QUESTIONS: readonly Question[] = [
  {
    name: 'rate',
    ask: (url) => {
      const end = Date.now() / 1000
      const query = { query: 'sum by (dc) (rate(soak_a[1m]))', start: String(end - RANGE_SECS), end: String(end), step: String(STEP_SECS) }
      return asked(`${url}/api/v1/query_range?${new URLSearchParams(query)}`)
    },
  },
  { name: 'topk', ask: (url) => asked(`${url}/api/v1/query?${new URLSearchParams({ query: 'topk(5, soak_b)' })}`) },
]

export const SQL_QUESTIONS: readonly Question[] = [
  {
    name: 'sql',
    ask: (url) => asked(`${url}/api/v1/svc/sql?${new URLSearchParams({ q: "SELECT avg(b) FROM soak WHERE _time >= now() - INTERVAL '1 minute'" })}`),
  },
]

/** Deletes a minute of one host, and every other time of a tenth of one data centre's. */
export async function deleteSome(url: string, turn: number, series: number): Promise<void> {
  const end = Date.now() - 30_000
  const tags = turn % 2 === 0 ? { host: hostName((turn * 7919) % series) } : { dc: `dc${turn % 8}` }
  const range = { start: String(BigInt(end - (turn % 2 === 0 ? 60_000 : 100)) * 1_000_000n), end: String(BigInt(end) * 1_000_000n) }
  const answer = await fetch(`${url}/api/v1/delete`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ measurement: 'soak', tags, range }),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  if (answer.status !== 200) throw new Error(`a delete was answered ${answer.status}: ${(await answer.text()).slice(0, 500)}`)
  await answer.arrayBuffer()
}

async function asked(url: string): Promise<void> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) })
  const text = await answer.text()
  if (answer.status !== 200) throw new Error(`answered ${answer.status}: ${text.slice(0, 500)}`)
  if (/"result":\[\]|"rows":\[\]/.test(text)) throw new Error(`nothing was found: ${text.slice(0, 500)}`)
}
