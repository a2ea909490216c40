/**
 * Requests that grow, against a node: what they cost in processor time, on all of its threads, grows with their bytes and hardly faster, and each is answered, refused
 * or told to come again.
 */
import { boot, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'
import { type Family, grows, processorMsOf } from '../../support/growth.ts'

export interface GrowingRequest {
  method?: 'GET' | 'POST'
  url: string
  headers?: Record<string, string>
  /** Of the largest. */
  bytes: number
  /** Of the length of what it makes a URL for, too. */
  body: Family<string | Uint8Array>
}

/** A node with plugins of this repository, by their ids. */
export async function growthNode(t: Test, plugins: readonly string[], config: Record<string, Record<string, unknown>> = {}): Promise<TestNode> {
  const node = await boot({ plugins, config, storage: 'embedded' })
  t.teardown(() => node.stop())
  return node
}

export async function requestsGrow(t: Test, node: TestNode, requests: Record<string, GrowingRequest>): Promise<void> {
  for (const [name, request] of Object.entries(requests)) {
    const bad: string[] = []
    const statuses = new Set<number>()
    await grows(t, name, request, async (bytes) => {
      const payload = request.body(bytes)
      let answer = { statusCode: 0, body: '' }
      const ms = await processorMsOf(async () => {
        answer = await send(node, request, payload)
      })
      if (answer.statusCode < 200 || answer.statusCode === 500 || answer.statusCode === 502) bad.push(`${answer.statusCode} ${answer.body.slice(0, 200)}`)
      statuses.add(answer.statusCode)
      return ms
    })
    t.same(bad, [], `${name}: answered by ${[...statuses]}`)
    // Nobody would have read it.
    if (request.method !== 'GET') t.notOk(statuses.has(404), name)
  }
}

function send(node: TestNode, { method = 'POST', url, headers = {} }: GrowingRequest, payload: string | Uint8Array) {
  if (method === 'GET') return node.inject({ method, url: url + payload, headers })
  return node.inject({
    method,
    url,
    headers,
    payload: typeof payload === 'string' ? payload : Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength),
  })
}
