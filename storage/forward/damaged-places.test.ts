/** A bit that turns in what an edge notes beside its queue: nothing that waits is passed over, and nothing is read as what it is not. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { i64, lines, NOW, write } from '../conformance/points.ts'
import type { ForwardEngine } from './engine.ts'
import { edgeOf, upstream } from './testing.ts'

/** Nobody listens there. */
const NOWHERE = 'http://127.0.0.1:9'
const point = (n: number) => ({ measurement: 'cpu', tags: { host: 'a' }, time: NOW + BigInt(n), fields: { v: i64(BigInt(n)) } })

t.test('a place that was damaged does not pass over what waits', async (t) => {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  const data_dir = temporaryFolder(t)
  const said: string[] = []
  const say = (given: { err?: Error }, text?: string): void => void said.push(`${text} ${given.err?.message}`)
  const log = { debug() {}, info() {}, warn: say, error: say }
  const opened = async (to: string): Promise<ForwardEngine> => {
    const engine = edgeOf({ data_dir, forward: { upstream: [{ name: 'one', url: to }] } }, { log })
    await engine.open()
    return engine
  }
  // Each start begins a new file of the queue.
  for (let n = 0; n < 4; n++) {
    const engine = await opened(NOWHERE)
    await write(engine, [point(n)], { namespace: '' })
    await engine.close()
  }
  const path = join(data_dir, 'positions', 'upstream.json')
  const bytes = readFileSync(path)
  const digit = bytes.indexOf('"file":') + '"file":'.length
  t.equal(String.fromCharCode(bytes[digit]), '1')
  bytes[digit] ^= 2
  writeFileSync(path, bytes)
  said.length = 0
  const engine = await opened(url)
  t.teardown(() => engine.close())
  await engine.drained()
  t.equal((await lines(node.storage, { namespace: '', measurement: 'cpu' })).length, 4, 'all arrive')
  t.match(said, [/cannot read ".*positions\/upstream.json", where it stands how far the upstream is; .* its checksum does not fit/])
})

t.test('a plugin’s state that was damaged ends the use of it, with the name of the file', async (t) => {
  const data_dir = temporaryFolder(t)
  const opened = async (): Promise<ForwardEngine> => {
    const engine = edgeOf({ data_dir, forward: { upstream: [{ name: 'one', url: NOWHERE }] } })
    await engine.open()
    return engine
  }
  const first = await opened()
  await first.state('keys').transaction((tx) => tx.put('k', { namespaces: ['team-a'] }))
  await first.close()
  const path = join(data_dir, 'state', 'keys.json')
  const text = readFileSync(path, 'utf8')
  writeFileSync(path, text.replace('team-a', 'team-c'))
  const second = await opened()
  t.teardown(() => second.close())
  const read = async (): Promise<unknown> => second.state('keys').get('k')
  await t.rejects(read(), { code: 'DATABASE_ERROR', message: /cannot read state file ".*keys.json": its checksum does not fit; restore it/ })
  writeFileSync(path, text.replace(/,"checksum":"[0-9a-f]{8}"/, ''))
  t.same(await read(), { namespaces: ['team-a'] }, 'as older versions wrote it')
})

t.test('a plugin’s state that was lost is not taken for none', async (t) => {
  const data_dir = temporaryFolder(t)
  const path = (name: string) => join(data_dir, name)
  const opened = async (): Promise<ForwardEngine> => {
    const engine = edgeOf({ data_dir, forward: { upstream: [{ name: 'one', url: NOWHERE }] } })
    await engine.open().catch(async (error) => {
      await engine.close()
      throw error
    })
    return engine
  }
  const life = async (body: (engine: ForwardEngine) => Promise<unknown>): Promise<void> => {
    const engine = await opened()
    await body(engine).finally(() => engine.close())
  }
  const put = (engine: ForwardEngine, owner: string) => engine.state(owner).transaction((tx) => tx.put('k', owner))
  await life(async (engine) => {
    await Promise.all(['keys', 'of/it', 'other'].map((owner) => put(engine, owner)))
    t.equal(await engine.state('asked').get('k'), undefined)
  })
  await life(async (engine) => t.same(await engine.stateOwners(), ['keys', 'of/it', 'other']))
  rmSync(path('state/keys.json'))
  await life(async (engine) => {
    const lost = { code: 'DATABASE_ERROR', message: /cannot read state file ".*keys.json": it is missing; .*state-owners.json" to begin without/ }
    await t.rejects(async () => engine.state('keys').get('k'), lost)
    await t.rejects(engine.stateOwners(), lost, 'neither does a copy leave it out')
    t.equal(await engine.state('of/it').get('k'), 'of/it')
    t.equal(await engine.state('asked').get('k'), undefined, 'who had nothing has nothing')
  })
  const list = readFileSync(path('state-owners.json'), 'utf8')
  writeFileSync(path('state-owners.json'), list.replace('other', 'orher'))
  await t.rejects(opened(), { code: 'DATABASE_ERROR', message: /cannot read ".*state-owners.json".*its checksum does not fit.*remove it to go on/ })
  rmSync(path('state-owners.json'))
  await life(async (engine) => {
    t.equal(await engine.state('keys').get('k'), undefined, 'on purpose')
    t.same(await engine.stateOwners(), ['of/it', 'other'])
  })
})

t.test('a queue that has lost its name says so, and goes on under another', async (t) => {
  const data_dir = temporaryFolder(t)
  const path = join(data_dir, 'queue-id')
  const said: string[] = []
  const say = (given: { err?: Error }, text?: string): void => void said.push(`${text} ${given.err?.message}`)
  const life = async (): Promise<string> => {
    said.length = 0
    const engine = edgeOf({ data_dir, forward: { upstream: [{ name: 'one', url: NOWHERE }] } }, { log: { debug() {}, info() {}, warn: say, error: say } })
    await engine.open()
    await engine.close()
    return readFileSync(path, 'utf8')
  }
  const first = await life()
  t.same(said, [])
  t.equal(await life(), first)
  t.same(said, [])
  for (const damage of [() => writeFileSync(path, first.replace(/.\n/, 'q\n')), () => writeFileSync(path, ''), () => rmSync(path)]) {
    damage()
    t.match(await life(), /^[0-9a-f]{16}\n$/)
    t.match(said, [/cannot read what names the queue to upstreams; it gets another name.*queue-id/])
  }
})
