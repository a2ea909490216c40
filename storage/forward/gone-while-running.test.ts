/** Files of the queue that go, or are cut, while the server runs: what was in them is counted, the rest is sent, and a stop ends. */
import { readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { i64, lines, NOW, NOW_MS, str, write } from '../conformance/points.ts'
import { type ForwardEnvironment, realEnvironment } from './engine.ts'
import { edgeOf, upstream } from './testing.ts'

const FILE_SIZE = 2000
const environment: ForwardEnvironment = { ...realEnvironment, pause: (ms, signal) => realEnvironment.pause(Math.min(ms, 1), signal) }
const clockOf = (ms: number) => new Date(ms).toISOString().slice(11, 16)

/** An edge that sends nothing until it is asked to. */
async function held(t: Test) {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  const data_dir = temporaryFolder(t)
  const dropped: string[] = []
  const say = (given: object, text?: string): void => void (text?.startsWith('points were dropped') && dropped.push(JSON.stringify(given)))
  let now = NOW_MS
  const opens = NOW_MS + 60_000
  const forward = { upstream: [{ name: 'one', url }], file_size: FILE_SIZE, send_between: [`${clockOf(opens)}-${clockOf(opens + 3_600_000)}`] }
  const engine = edgeOf({ data_dir, forward }, { now: () => now, environment, log: { debug() {}, info() {}, warn: say, error: say } })
  await engine.open()
  let closed = false
  const close = async () => {
    if (!closed) await engine.close()
    closed = true
  }
  t.teardown(close)
  return {
    close,
    /** @param large the file is full with it. */
    take: (n: number, large = false) =>
      write(
        engine,
        [{ measurement: 'cpu', tags: { host: 'a' }, time: NOW + BigInt(n), fields: { v: i64(BigInt(n)), s: str('x'.repeat(large ? FILE_SIZE : 1)) } }],
        {
          namespace: '',
        },
      ),
    sent: async () => {
      now = opens
      await engine.drained()
      const stored = await lines(node.storage, { namespace: '', measurement: 'cpu' }).catch(() => [])
      return stored.map((line) => Number(/v=int64:(\d+)/.exec(line)?.[1]))
    },
    dropped,
    files: () =>
      readdirSync(join(data_dir, 'queue'))
        .sort()
        .map((name) => join(data_dir, 'queue', name)),
  }
}

const lost = (points: number): string => `{"reason":"damaged","records":${points},"points":${points}}`

t.test('one that is not the newest is gone', async (t) => {
  const { take, sent, dropped, files, close } = await held(t)
  await take(0, true)
  await take(1, true)
  rmSync(files()[0])
  await take(2)
  t.same(await sent(), [1, 2])
  t.same(dropped, [lost(1)])
  await close()
})

t.test('the newest is gone, and what comes next goes to another', async (t) => {
  const { take, sent, dropped, files, close } = await held(t)
  await take(0, true)
  await take(1)
  await take(2)
  rmSync(files().at(-1) as string)
  t.same(await sent(), [0])
  t.same(dropped, [lost(2)])
  await take(3)
  t.same(await sent(), [0, 3])
  t.same(dropped, [lost(2)])
  await close()
})

for (const newest of [false, true]) {
  for (const whole of [0, 1]) {
    t.test(`${newest ? 'the newest' : 'one that is not the newest'} is cut within record ${whole + 1} of 3`, async (t) => {
      const { take, sent, dropped, files, close } = await held(t)
      for (let n = 0; n < 3; n++) await take(n, !newest && n === 2)
      const [path] = files()
      const record = 16 + readFileSync(path).readUInt32LE(8)
      truncateSync(path, 8 + record * whole + 40)
      if (!newest) await take(3)
      const expected = [...(whole === 1 ? [0] : []), ...(newest ? [] : [3])]
      t.same(await sent(), expected)
      t.same(dropped, [lost(3 - whole)])
      await take(4)
      t.same(await sent(), [...expected, 4])
      await close()
    })
  }
}
