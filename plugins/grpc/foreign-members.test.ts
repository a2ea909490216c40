/** Members that nobody knows, or that come again and again: two bytes each, and read in one turn. What there may be of them in one place is bounded. */

import { credentials, makeClientConstructor } from '@grpc/grpc-js'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import t from 'tap'
import { start, TestClient } from './testing.ts'

const NOW = Number(BigInt(Date.now()) * 1_000_000n)
const MANY = 100_000
const pass = (bytes: Buffer): Buffer => bytes

function message(write: (out: ProtobufWriter) => void): Buffer {
  const out = new ProtobufWriter()
  write(out)
  return Buffer.from(out.take())
}

function nested(out: ProtobufWriter, field: number, write: () => void): void {
  const mark = out.open(field)
  write()
  out.close(mark)
}

const unknown = (count: number) => Buffer.alloc(count * 2, Uint8Array.of(0x78, 0))
const times = Buffer.alloc(MANY * 2, Uint8Array.of(0x20, 1))
const names = Buffer.alloc(MANY * 2, Uint8Array.of(0x0a, 0))

/** A message of one point. Each place may have something more in it. */
function write(more: { top?: Buffer; point?: Buffer; tag?: Buffer; field?: Buffer; value?: Buffer }, nameLast = false): Buffer {
  const add = (out: ProtobufWriter, bytes: Uint8Array = new Uint8Array(0)) => out.append(bytes)
  return message((out) => {
    nested(out, 1, () => {
      if (!nameLast) out.string(1, 'm')
      nested(out, 2, () => {
        out.string(1, 'host')
        out.string(2, 'a')
        add(out, more.tag)
      })
      nested(out, 3, () => {
        out.string(1, 'v')
        nested(out, 2, () => {
          out.double(1, 1)
          add(out, more.value)
        })
        add(out, more.field)
      })
      out.int(4, NOW)
      add(out, more.point)
      if (nameLast) out.string(1, 'm')
    })
    add(out, more.top)
  })
}

t.test('members that nobody knows', async (t) => {
  const { node, port } = await start({ storage: 'embedded' })
  const Raw = makeClientConstructor(
    Object.fromEntries(
      ['Write', 'StreamWrite'].map((name) => [
        name,
        {
          path: `/svc.Service/${name}`,
          requestStream: name === 'StreamWrite',
          responseStream: false,
          requestSerialize: pass,
          requestDeserialize: pass,
          responseSerialize: pass,
          responseDeserialize: pass,
        },
      ]),
    ),
    'svc.Service',
  )
  const raw = new Raw(`localhost:${port}`, credentials.createInsecure())
  const client = new TestClient(port)
  t.teardown(async () => {
    raw.close()
    client.close()
    await node.stop()
  })
  const send = (method: 'Write' | 'StreamWrite', bytes: Buffer): Promise<string> =>
    new Promise((resolve) => {
      const done = (error: { details: string } | null) => resolve(error?.details ?? '')
      if (method === 'Write') raw.Write(bytes, done)
      else {
        const stream = raw.StreamWrite(done)
        stream.on('error', () => {})
        stream.end(bytes)
      }
    })

  for (const method of ['Write', 'StreamWrite'] as const) {
    await t.test(`${method} takes a few, wherever they are`, async (t) => {
      const few = unknown(20)
      for (const nameLast of [false, true]) t.equal(await send(method, write({ top: few, point: few, tag: few, field: few, value: few }, nameLast)), '')
    })

    await t.test(`${method} refuses many`, async (t) => {
      const many = unknown(MANY)
      for (const [more, why] of [
        [{ top: many }, /more than 1024 members beside its points/],
        [{ point: many }, /more than \d+ members beside its tags/],
        [{ point: times }, /more than \d+ members beside its tags/],
        [{ point: names }, /more than \d+ members beside its tags/],
        [{ tag: many }, /a tag: it has more than 64 members/],
        [{ field: many }, /a field has more than 64 members/],
        [{ value: many }, /its value has more than 64 members/],
      ] as const)
        for (const nameLast of [false, true]) t.match(await send(method, write(more, nameLast)), why)
    })
  }
  t.equal((await client.query({ measurement: 'm', format: 'ROWS' })).flatMap(({ rows }) => rows).length, 1, 'and nothing of those is there')
})
