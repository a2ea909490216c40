/** A disk that does not give back a part of the queue costs what is there, is counted, and holds up nothing. */
import { readdirSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import t, { type Test } from 'tap'
import { FRAME_HEADER } from '../common/log/log.ts'
import { i64, lines, NOW, write } from '../conformance/points.ts'
import { type ForwardEnvironment, realEnvironment } from './engine.ts'
import { edgeOf, folder, upstream } from './testing.ts'

/** The real disk, on which reads of some bytes of files of the queue fail. */
function worn(fails: (start: number, end: number) => string | undefined) {
  const tries: number[] = []
  const pauses: number[] = []
  const { fs } = realEnvironment
  const open = async (path: string, flags: string) => {
    const file = await fs.promises.open(path, flags)
    const name = basename(path)
    return {
      read: async (buffer: Buffer, offset: number, length: number, position: number) => {
        const code = name.endsWith('.queue') ? fails(position, position + length) : undefined
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

async function edge(t: Test, environment: ForwardEnvironment, said: string[]) {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  const say = (given: object, text?: string) => void said.push(`${text} ${JSON.stringify(given)}`)
  const log = { debug() {}, info() {}, warn: say, error: say }
  const dir = join(folder(t), 'data')
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
