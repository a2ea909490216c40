/** Files of the queue that went, or were cut, while no server ran: what was in them is counted, and the rest is sent. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { i64, lines, NOW, write } from '../conformance/points.ts'
import { edgeOf, upstream } from './testing.ts'

/** Nobody listens there. */
const NOWHERE = 'http://127.0.0.1:9'
const LIVES = 4
const EACH = 3
const point = (n: number) => ({ measurement: 'cpu', tags: { host: 'a' }, time: NOW + BigInt(n), fields: { v: i64(BigInt(n)) } })

/** An edge that was stopped several times while its upstream was away: its queue has a file of each life. */
async function stopped(t: Test) {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  const data_dir = temporaryFolder(t)
  const said: string[] = []
  const say = (given: object, text?: string): void => void said.push(`${text} ${JSON.stringify(given)}`)
  const opened = async (to: string, more: object = {}) => {
    const log = { debug() {}, info() {}, warn: say, error: say }
    const engine = edgeOf({ data_dir, forward: { upstream: [{ name: 'one', url: to }], ...more } }, { log })
    await engine.open()
    return engine
  }
  for (let life = 0; life < LIVES; life++) {
    const engine = await opened(NOWHERE)
    for (let n = 0; n < EACH; n++) await write(engine, [point(life * EACH + n)], { namespace: '' })
    await engine.close()
  }
  const stored = async () =>
    (await lines(node.storage, { namespace: '', measurement: 'cpu' }).catch(() => [])).map((line) => Number(/v=int64:(\d+)/.exec(line)?.[1]))
  const files = () =>
    readdirSync(join(data_dir, 'queue'))
      .sort()
      .map((name) => join(data_dir, 'queue', name))
  const dropped = () => said.filter((text) => text.startsWith('points were dropped'))
  said.length = 0
  return { opened, url, stored, files, dropped, said }
}

const without = (file: number): number[] => Array.from({ length: LIVES * EACH }, (_, n) => n).filter((n) => Math.floor(n / EACH) !== file)
const lost = (points: number): string => `points were dropped from the queue {"reason":"damaged","records":${points},"points":${points}}`

for (let file = 0; file < LIVES; file++) {
  for (const how of ['is gone', 'is empty']) {
    t.test(`file ${file + 1} of ${LIVES} ${how}`, async (t) => {
      const { opened, url, stored, files, dropped } = await stopped(t)
      const path = files()[file]
      if (how === 'is gone') rmSync(path)
      else writeFileSync(path, '')
      const engine = await opened(url)
      t.teardown(() => engine.close())
      await write(engine, [point(100)], { namespace: '' })
      await engine.drained()
      t.same(await stored(), [...without(file), 100])
      t.same(dropped(), [lost(EACH)])
    })
  }
}

t.test('the end of the newest file is cut between two records', async (t) => {
  const { opened, url, stored, files, dropped } = await stopped(t)
  const path = files().at(-1) as string
  const bytes = readFileSync(path)
  writeFileSync(path, bytes.subarray(0, 8 + 16 + bytes.readUInt32LE(8)))
  const engine = await opened(url)
  t.teardown(() => engine.close())
  await engine.drained()
  t.same(await stored(), [...without(LIVES - 1), (LIVES - 1) * EACH])
  t.same(dropped(), [lost(EACH - 1)])
})

t.test('all of them are gone', async (t) => {
  const { opened, url, stored, files, dropped } = await stopped(t)
  for (const path of files()) rmSync(path)
  const engine = await opened(url)
  t.teardown(() => engine.close())
  await write(engine, [point(100)], { namespace: '' })
  await engine.drained()
  t.same(await stored(), [100])
  t.same(dropped(), [lost(LIVES * EACH)])
})

t.test('files that went because the upstream has what was in them are not counted', async (t) => {
  const { opened, url, said } = await stopped(t)
  for (let n = 100; n < 103; n++) {
    const engine = await opened(url)
    await write(engine, [point(n)], { namespace: '' })
    await engine.drained()
    await engine.close()
  }
  t.same(said, [])
})

t.test('what was sent from other places meanwhile, as in another mode, is not taken for lost', async (t) => {
  const { opened, url, stored, said } = await stopped(t)
  const copying = await opened(url, { mode: 'copy' })
  await copying.drained()
  await copying.close()
  const engine = await opened(url)
  t.teardown(() => engine.close())
  await write(engine, [point(100)], { namespace: '' })
  await engine.drained()
  t.equal((await stored()).length, LIVES * EACH + 1)
  t.same(said, [])
})
