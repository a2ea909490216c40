/** Questions to a node over HTTP, as data sources ask them. */
import type { TestNode } from 'svcdb/testkit'

/** Seconds since the Unix epoch. */
export interface TimeRange {
  start: number
  end: number
}

/** As RFC 3339, whole seconds around it. */
export function boundsOf({ start, end }: TimeRange): { from: string; to: string } {
  const text = (secs: number): string => new Date(secs * 1000).toISOString().replace(/\.\d+Z$/, 'Z')
  return { from: text(Math.floor(start)), to: text(Math.ceil(end)) }
}

export interface PromAnswer {
  status: 'success' | 'error'
  error?: string
  warnings?: string[]
  data?: { result: { metric: Record<string, string>; value?: [number, string]; values?: [number, string][] }[] }
}

export class Asker {
  private readonly node: Pick<TestNode, 'inject'>
  private readonly headers: Record<string, string>

  constructor(node: Pick<TestNode, 'inject'>, headers: Record<string, string> = {}) {
    this.node = node
    this.headers = headers
  }

  async get(path: string, params: Record<string, string>): Promise<unknown> {
    return (await this.node.inject({ url: `${path}?${new URLSearchParams(params)}`, headers: this.headers })).json()
  }

  instant(query: string, time: number): Promise<PromAnswer> {
    return this.get('/api/v1/query', { query, time: String(time) }) as Promise<PromAnswer>
  }

  range(query: string, { start, end }: TimeRange, step: number): Promise<PromAnswer> {
    return this.get('/api/v1/query_range', { query, start: String(start), end: String(end), step: String(step) }) as Promise<PromAnswer>
  }

  /** @throws Error with the server's answer. */
  async labelValues(label: string, match: string | undefined, { start, end }: TimeRange): Promise<string[]> {
    const given = { start: String(start), end: String(end), ...(match === undefined ? {} : { 'match[]': match }) }
    const answer = (await this.get(`/api/v1/${label === '' ? 'labels' : `label/${label}/values`}`, given)) as { data?: string[] }
    if (answer.data === undefined) throw new Error(JSON.stringify(answer))
    return answer.data
  }

  /** @throws Error with the server's answer. */
  async sql(query: string): Promise<{ columns: { name: string; data_type: string }[]; rows: unknown[][] }> {
    const answer = await this.node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query }, headers: this.headers })
    if (answer.statusCode !== 200) throw new Error(`${query}: ${answer.body}`)
    return answer.json()
  }
}

/** What a panel would draw. */
export function numbersOf({ data }: PromAnswer): number[] {
  return (data?.result ?? [])
    .flatMap(({ value, values }) => (value === undefined ? (values ?? []) : [value]).map(([, text]) => Number(text)))
    .filter(Number.isFinite)
}
