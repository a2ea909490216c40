/** A node with triggers, and what tests ask of it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type BootOptions, boot, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'

export interface ShownSignal {
  event_id: string
  trigger_id: string
  trigger_name: string
  measurement: string
  tags: Record<string, string>
  timestamp: number
  signal_type: string
  severity: string
  value: number
  metadata: { sequence: number; condition: string; backfill?: boolean }
}

export interface TriggerNode {
  node: TestNode
  /** Runs a statement; answers the status and the body. */
  run(
    query: string,
    headers?: Record<string, string>,
  ): Promise<{ status: number; body: Record<string, unknown> & { message?: string; error?: string; code?: string } }>
  write(lines: string | readonly string[], headers?: Record<string, string>): Promise<void>
  signals(query?: string, headers?: Record<string, string>): Promise<ShownSignal[]>
  /** Waits until there are at least so many signals, and a moment longer. */
  settled(count: number, headers?: Record<string, string>): Promise<ShownSignal[]>
}

export async function start(t: Test, options: BootOptions = {}): Promise<TriggerNode> {
  const { plugins = [], config, ...more } = options
  const node = await boot({ plugins: ['line_protocol', 'triggers', ...plugins], config: { triggers: {}, ...config }, ...more })
  t.teardown(() => node.stop())
  return asked(node)
}

export function asked(node: TestNode): TriggerNode {
  const signals: TriggerNode['signals'] = async (query = '', headers = {}) => {
    const answer = await node.inject({ url: `/api/v1/signals${query}`, headers })
    if (answer.statusCode !== 200) throw new Error(answer.body)
    return answer.json()
  }
  return {
    node,
    async run(query, headers = {}) {
      const answer = await node.inject({ method: 'POST', url: '/api/v1/triggers', payload: { query }, headers })
      return { status: answer.statusCode, body: answer.json() }
    },
    async write(lines, headers = {}) {
      const payload = typeof lines === 'string' ? lines : lines.join('\n')
      const answer = await node.inject({ method: 'POST', url: '/write', payload, headers: { 'content-type': 'text/plain', ...headers } })
      if (answer.statusCode !== 204) throw new Error(answer.body)
    },
    signals,
    async settled(count, headers = {}) {
      const until = performance.now() + 30_000
      for (;;) {
        const found = await signals('', headers)
        if (found.length >= count || performance.now() > until) {
          await sleep(60)
          return signals('', headers)
        }
        await sleep(10)
      }
    },
  }
}
