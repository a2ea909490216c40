import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { boot } from 'svcdb/testkit'
import poll from './index.ts'
import { numbersOf } from './numbers.ts'

let body = '{"load": 0.5, "name": "a", "users": 7}'
let asked = 0
const server = createServer((_, answer) => {
  asked++
  answer.end(body)
}).listen(0, '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
const node = await boot({ plugins: [poll], config: { poll: { url, every_ms: 10, max_bytes: 100 } } })
after(async () => {
  await node.stop()
  server.close()
})

async function stored(): Promise<Record<string, unknown>[]> {
  const rows: Record<string, unknown>[] = []
  if ((await node.storage.usage('')).measurements === 0) return rows
  for await (const { tags, times, columns } of node.storage.scan({ namespace: '', measurement: 'poll' }))
    for (let row = 0; row < times.length; row++) rows.push({ ...tags, ...Object.fromEntries(columns.map(({ name, values }) => [name, values[row]])) })
  return rows
}

test('what a URL answers is stored, again and again', async () => {
  while ((await stored()).length < 3) await turn()
  for (const row of await stored()) assert.deepEqual(row, { url, load: 0.5, users: 7 })
  assert.match((await node.inject('/metrics')).body, /^svc_poll_answers_total [1-9]/m)
})

test('an answer that is of no use is reported, and the next one is stored', async () => {
  for (const bad of ['no json', `{"long": "${'x'.repeat(200)}"}`, '[1]']) {
    body = bad
    const before = asked
    while (asked < before + 3) await turn()
    const { schedules } = (await node.inject('/api/v1/admin/schedules')).json()
    assert.match(JSON.stringify(schedules), /cannot read the answer/)
  }
  body = '{"load": 2}'
  while (!(await stored()).some(({ load }) => load === 2)) await turn()
})

test('numbers of an object, and nothing else', () => {
  assert.deepEqual(numbersOf('{"a":1,"b":"x","c":{"d":2},"e":-0.5}'), { a: 1, e: -0.5 })
  for (const text of ['', '[1]', 'null', '5', '{}', '{"a":"1"}']) assert.throws(() => numbersOf(text), { code: 'INVALID_BODY' })
})
