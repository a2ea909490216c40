/** A disk that does not give back a part of the queue costs what is there, is counted, and holds up nothing. */

import { appendFileSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { FRAME_HEADER } from '../common/log/log.ts'
import { i64, lines, NOW, write } from '../conformance/points.ts'
import { type ForwardEnvironment, realEnvironment } from './engine.ts'
import { paths, queueFileNumber } from './paths.ts'
import { QUEUE_FORM } from './queue-file.ts'
import { edgeOf, upstream } from './testing.ts'

/** The real disk, on which reads of some bytes of files of the queue fail. */
function worn(fails: (start: number, end: number, file: number) => string | undefined) {
  const tries: number[] = []
  const pauses: number[] = []
  const { fs } = realEnvironment
  const open = async (path: string, flags: string) => {
    const file = await fs.promises.open(path, flags)
    const name = basename(path)
    return {
      read: async (buffer: Buffer, offset: number, length: number, position: number) => {
        const code = name.endsWith('.queue') ? fails(position, position + length, queueFileNumber(name) as number) : undefined
        if (code === undefined) return file.read(buffer, offset, length, position)
        tries.push(position)
        throw Object.assign(new Error(`${code}: read`), { code })
      },
      writeFile: (bytes: Uint8Array) => file.writeFile(bytes),
      close: () => file.close(),
    }
  }
  const environment = {
    ...realEnvironment,
    fs: { ...fs, promises: { ...fs.promises, open } },
    pause: async (ms: number, signal: AbortSignal) => {
      pauses.push(ms)
      await realEnvironment.pause(Math.min(ms, 1), signal)
    },
  } as unknown as ForwardEnvironment
  return { environment, tries, pauses }
}

const logTo = (said: string[]) => {
  const say = (given: object, text?: string) => void said.push(`${text} ${JSON.stringify(given)}`)
  return { debug() {}, info() {}, warn: say, error: say }
}

async function edge(t: Test, environment: ForwardEnvironment, said: string[]) {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  const log = logTo(said)
  const dir = join(temporaryFolder(t), 'data')
  const size = () => Math.max(...readdirSync(join(dir, 'queue')).map((name) => statSync(join(dir, 'queue', name)).size))
  const engine = edgeOf({ data_dir: dir, forward: { upstream: [{ name: 'one', url }] } }, { environment, log })
  await engine.open()
  t.teardown(() => engine.close())
  return { engine, size, stored: async () => (await lines(node.storage, { namespace: '', measurement: 'cpu' }).catch(() => [])).length }
}

const points = (n: number) => [{ measurement: 'cpu', tags: { host: 'a' }, time: NOW + BigInt(n), fields: { v: i64(BigInt(n)) } }]

for (const { what, code, from, to, lost } of [
  { what: 'a record', code: 'EIO', from: FRAME_HEADER + 4, to: FRAME_HEADER + 8, lost: 1 },
  { what: 'the header of a record, and with it the rest of the file,', code: 'EBADMSG', from: 0, to: FRAME_HEADER, lost: 2 },
]) {
  t.test(`${what} that the disk does not give back (${code}) is passed over after eight tries`, async (t) => {
    let bad = { from: 0, to: 0 }
    const { environment, tries, pauses } = worn((start, end) => (start < bad.to && end > bad.from ? code : undefined))
    const said: string[] = []
    const { engine, stored, size } = await edge(t, environment, said)
    await write(engine, points(0), { namespace: '' })
    await engine.drained()
    const at = size()
    bad = { from: at + from, to: at + to }
    await Promise.all([write(engine, points(1), { namespace: '' }), write(engine, points(2), { namespace: '' })])
    await engine.drained()
    t.equal(await stored(), 3 - lost)
    t.ok(tries.length >= 8, `${tries.length} tries`)
    t.same(
      pauses.filter((ms) => ms >= 500),
      [500, 1000, 2000, 4000, 8000, 16_000, 32_000],
      'a minute in all',
    )
    t.ok(said.some((text) => /cannot read the queue; trying again.*"tries":7/.test(text)))
    t.ok(
      said.some((text) => text.includes(`points were dropped from the queue {"reason":"damaged","records":${lost},"points":${lost}}`)),
      'what is lost is counted',
    )
    bad = { from: 0, to: 0 }
    await write(engine, points(3), { namespace: '' })
    await engine.drained()
    t.equal(await stored(), 4 - lost, 'what comes behind it arrives')
  })
}

t.test('what may be there again is tried for as long as it takes', async (t) => {
  let failures = 0
  const { environment } = worn(() => (failures > 0 && failures-- > 0 ? 'EMFILE' : undefined))
  const said: string[] = []
  const { engine, stored } = await edge(t, environment, said)
  failures = 30
  await write(engine, points(0), { namespace: '' })
  await engine.drained()
  t.same([failures, await stored()], [0, 1])
  t.notOk(said.some((text) => text.includes('dropped')))
})

/** Three points wait in the newest file of an edge that has been stopped. */
async function stopped(t: Test) {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  const dir = join(temporaryFolder(t), 'data')
  const config = (more: object = {}) => ({ data_dir: dir, forward: { upstream: [{ name: 'one', url }], ...more } })
  const before = edgeOf(config({ send_between: ['00:00-00:01'] }))
  await before.open()
  for (let n = 0; n < 3; n++) await write(before, points(n), { namespace: '' })
  await before.close()
  const name = readdirSync(join(dir, 'queue')).sort().at(-1) as string
  const path = join(dir, 'queue', name)
  const bytes = readFileSync(path)
  const starts = [QUEUE_FORM.magic.length]
  for (let at = starts[0]; at < bytes.length; ) starts.push((at += FRAME_HEADER + bytes.readUInt32LE(at)))
  const stored = async () =>
    (await lines(node.storage, { namespace: '', measurement: 'cpu' }).catch(() => [])).map((line) => Number(/v=int64:(\d+)/.exec(line)?.[1]))
  const start = async (environment: ForwardEnvironment, said: string[]) => {
    const engine = edgeOf(config(), { environment, log: logTo(said) })
    t.teardown(() => engine.close())
    await engine.open()
    return engine
  }
  return { dir, path, starts, stored, start }
}

for (const { what, from, to, arrive, dropped } of [
  { what: 'the first record', from: 0, to: 1, arrive: [1, 2, 3], dropped: 1 },
  { what: 'a record between two', from: 1, to: 2, arrive: [0, 2, 3], dropped: 1 },
  { what: 'the last record', from: 2, to: 3, arrive: [0, 1, 3], dropped: 1 },
  { what: 'most of the records', from: 0, to: 3, arrive: [3], dropped: 3 },
]) {
  t.test(`a start on a disk that does not give back ${what} sends the others, and takes points`, async (t) => {
    const { starts, stored, start } = await stopped(t)
    const { environment } = worn((first, end, file) => (file === 1 && first < starts[to] && end > starts[from] + FRAME_HEADER ? 'EIO' : undefined))
    const said: string[] = []
    const engine = await start(environment, said)
    await write(engine, points(3), { namespace: '' })
    await engine.drained()
    t.same(await stored(), arrive)
    t.ok(
      said.some((text) => text.includes('a part of the queue cannot be read and was passed over')),
      'it is said',
    )
    const counted = said.filter((text) => text.startsWith('points were dropped'))
    t.same([counted.length, /"points":(\d+)/.exec(counted[0])?.[1]], [1, String(dropped)], 'and counted')
  })
}

for (const { what, crashed } of [
  { what: 'a start', crashed: false },
  // What was counted when it stopped is not noted then.
  { what: 'a start after a crash', crashed: true },
]) {
  t.test(`${what} gives nothing up: what the disk gives back later is sent`, async (t) => {
    const { dir, stored, start } = await stopped(t)
    if (crashed) rmSync(paths(dir).counted)
    let bad = true
    const { environment } = worn((_, __, file) => (file === 1 && bad ? 'EIO' : undefined))
    const said: string[] = []
    const engine = await start(environment, said)
    await write(engine, points(3), { namespace: '' })
    bad = false
    await write(engine, points(4), { namespace: '' })
    await engine.drained()
    t.same(await stored(), [0, 1, 2, 3, 4])
    t.notOk(said.some((text) => text.includes('points were dropped')))
  })
}

t.test('a torn end that cannot be cut, and a file that cannot be synced, are read as they are', async (t) => {
  const { path, stored, start } = await stopped(t)
  appendFileSync(path, Uint8Array.of(1, 2, 3))
  const fail = () => {
    throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
  }
  const { fs } = realEnvironment
  const openSync = (path: string, flags: string) => (path.endsWith('000000000001.queue') ? fail() : fs.openSync(path, flags))
  const said: string[] = []
  const engine = await start({ ...realEnvironment, fs: { ...fs, truncateSync: fail, openSync } }, said)
  await write(engine, points(3), { namespace: '' })
  await engine.drained()
  t.same(await stored(), [0, 1, 2, 3])
  t.ok(said.some((text) => text.includes('cannot cut the torn end of 000000000001.queue')))
  t.ok(said.some((text) => text.includes('cannot make durable 000000000001.queue')))
})

for (const call of ['readdirSync', 'writeSync'] as const) {
  t.test(`a disk on which nothing can be begun (${call}) is said, with what to do`, async (t) => {
    const { dir, start } = await stopped(t)
    const fail = () => {
      throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
    }
    await t.rejects(start({ ...realEnvironment, fs: { ...realEnvironment.fs, [call]: fail } }, []), {
      code: 'DATABASE_ERROR',
      message: `cannot open data directory "${dir}": EIO: i/o error; look at the disk; what waits is in its folder "queue": copied into a data_dir on another disk, it is sent from there`,
    })
  })
}
