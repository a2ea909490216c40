/** Prometheus remote write, both versions: many small things, the same one again and again, references that repeat long texts. */
import { compressSync } from 'snappy'
import type { ProtobufWriter } from 'svcdb/lib/protobuf'
import t from 'tap'
import { bytesOf, MILLIS, message, nested, range, V1, V2 } from '../loop-body.ts'
import { type GrowingRequest, growthNode, requestsGrow } from './requests.ts'

const BYTES = 2_000_000
const WRITE = '/api/v1/prom/write'
type Write = (out: ProtobufWriter, bytes: number) => void

const packed = (headers: Record<string, string>, write: Write, bytes = BYTES): GrowingRequest => ({
  url: WRITE,
  headers,
  bytes,
  body: (bytes) => compressSync(bytesOf(message((out) => write(out, bytes)))),
})
const v1 = (write: Write, bytes?: number): GrowingRequest => packed(V1, write, bytes)
/** Symbols 1 to 4 are a name, a metric, a label and its value, which may be long. */
const v2 = (write: Write, bytes?: number, value = 'v'): GrowingRequest =>
  packed(
    V2,
    (out, size) => {
      for (const text of ['', '__name__', 'w', 'a', value]) out.string(4, text)
      write(out, size)
    },
    bytes,
  )
const label = (out: ProtobufWriter, name: string, value: string): void =>
  nested(out, 1, () => {
    out.string(1, name)
    out.string(2, value)
  })
/** @param of bytes that one takes. */
const times = (bytes: number, of: number, item: (i: number) => void): void => {
  for (let i = 0; i < Math.floor(bytes / of); i++) item(i)
}
const seriesV1 = (out: ProtobufWriter, name: string, body: () => void): void =>
  nested(out, 1, () => {
    label(out, '__name__', name)
    body()
  })
const sample = (out: ProtobufWriter, ms = MILLIS): void =>
  nested(out, 2, () => {
    out.double(1, 1)
    out.int(2, ms)
  })
const seriesV2 = (out: ProtobufWriter, refs: Uint8Array, body: () => void): void =>
  nested(out, 5, () => {
    out.blob(1, refs)
    body()
  })
const REFS = Uint8Array.of(1, 2, 3, 4)
/** @param field of a series that histograms are in. */
const histogram = (out: ProtobufWriter, field: number, body: () => void): void =>
  nested(out, field, () => {
    out.int(1, 1)
    out.double(3, 1)
    out.double(5, 0.001)
    out.int(6, 1)
    body()
    out.int(15, MILLIS)
  })
const span = (out: ProtobufWriter, offset: number, length: number): void =>
  nested(out, 11, () => {
    out.sint(1, offset)
    out.int(2, length)
  })
const depth = (bytes: number): Uint8Array => {
  let inner: Uint8Array = Uint8Array.of()
  for (let i = 0; i < Math.min(2000, bytes / 5); i++) {
    const held = inner
    inner = message((out) => out.blob(1, held))
  }
  return inner
}

const REQUESTS: Record<string, GrowingRequest> = {
  '1.0: empty series': v1((out, bytes) => times(bytes, 2, () => out.blob(1, Uint8Array.of()))),
  '1.0: empty labels': v1((out, bytes) => nested(out, 1, () => times(bytes, 2, () => out.blob(1, Uint8Array.of())))),
  '1.0: a label again and again': v1((out, bytes) => seriesV1(out, 'w', () => times(bytes, 8, () => label(out, 'a', 'b')))),
  '1.0: many labels': v1((out, bytes) => seriesV1(out, 'w', () => times(bytes, 14, (i) => label(out, `l${i}`, 'b')))),
  '1.0: labels backwards': v1((out, bytes) => seriesV1(out, 'w', () => times(bytes, 16, (i) => label(out, `l${10_000_000 - i}`, 'b')))),
  '1.0: samples before labels': v1((out, bytes) =>
    times(bytes, 40, (i) =>
      nested(out, 1, () => {
        sample(out)
        label(out, '__name__', `w${i % 100}`)
      }),
    ),
  ),
  '1.0: samples between labels': v1((out, bytes) =>
    nested(out, 1, () =>
      times(bytes, 26, (i) => {
        sample(out, MILLIS + i)
        label(out, i === 0 ? '__name__' : `l${i}`, 'w')
      }),
    ),
  ),
  '1.0: a sample in parts': v1((out, bytes) => seriesV1(out, 'w', () => nested(out, 2, () => times(bytes, 9, () => out.double(1, 1))))),
  '1.0: samples backwards': v1((out, bytes) => seriesV1(out, 'w', () => times(bytes, 18, (i) => sample(out, MILLIS - i)))),
  '1.0: two series in turn': v1((out, bytes) => times(bytes, 34, (i) => seriesV1(out, `w${i & 1}`, () => sample(out, MILLIS + i)))),
  '1.0: fields that nobody knows': v1((out, bytes) => times(bytes, 4, () => out.int(99, 1))),
  '1.0: messages within messages': v1((out, bytes) => out.blob(1, depth(bytes))),
  '1.0: groups': v1((out, bytes) => out.append(Buffer.alloc(bytes, 0x0b))),
  '1.0: long varints': v1((out, bytes) => out.append(Buffer.alloc(bytes, 0xff))),
  '1.0: metadata of a metric': v1((out, bytes) =>
    times(bytes, 16, (i) =>
      nested(out, 3, () => {
        out.int(1, i % 8)
        out.string(2, 'w')
        out.string(4, `h${i}`)
      }),
    ),
  ),
  '1.0: spans of a histogram': v1((out, bytes) => seriesV1(out, 'h', () => histogram(out, 4, () => times(bytes, 6, () => span(out, 1, 1))))),
  '1.0: spans of nothing': v1((out, bytes) =>
    times(bytes, 1500, (i) => seriesV1(out, `h${i % 9}`, () => histogram(out, 4, () => times(1400, 6, () => span(out, 0, 0))))),
  ),
  '1.0: long spans': v1((out, bytes) => times(bytes, 60, () => seriesV1(out, 'h', () => histogram(out, 4, () => span(out, 0, 2 ** 31 - 1))))),
  '1.0: buckets': v1((out, bytes) =>
    times(bytes, 300, (i) =>
      seriesV1(out, `h${i % 9}`, () =>
        histogram(out, 4, () => {
          span(out, 0, 160)
          out.blob(12, new Uint8Array(160))
        }),
      ),
    ),
  ),
  '1.0: buckets far apart': v1((out, bytes) =>
    times(bytes, 100, () =>
      seriesV1(out, 'h', () =>
        histogram(out, 4, () => {
          span(out, -(2 ** 30), 1)
          span(out, 2 ** 31 - 10, 1)
          out.blob(12, new Uint8Array(2).fill(2))
        }),
      ),
    ),
  ),
  '1.0: fine buckets': v1((out, bytes) =>
    times(bytes, 70, () =>
      seriesV1(out, 'h', () =>
        histogram(out, 4, () => {
          out.sint(4, 52)
          span(out, 2 ** 30, 1)
          out.blob(12, Uint8Array.of(2))
        }),
      ),
    ),
  ),
  '1.0: exemplars of no text': v1((out, bytes) => seriesV1(out, 'w', () => times(bytes, 2, () => out.blob(3, Uint8Array.of())))),
  '1.0: exemplars of a series of long labels': v1((out, bytes) =>
    seriesV1(out, 'w', () => {
      label(out, 'a', 'x'.repeat(100_000))
      times(bytes, 4, () => out.blob(3, Uint8Array.of(0x0a, 0)))
    }),
  ),
  '1.0: exemplars of a series, backwards': v1((out, bytes) =>
    seriesV1(out, 'x', () =>
      times(bytes, 36, (i) =>
        nested(out, 3, () => {
          label(out, 'trace_id', `${i}`)
          out.double(2, 1)
          out.int(3, MILLIS - i)
        }),
      ),
    ),
  ),
  '2.0: symbols that a series each refers to': v2((out, bytes) => {
    const count = Math.floor(bytes / 40)
    for (const i of range(count, (i) => i)) out.string(4, `v${i}`)
    for (const i of range(count, (i) => 5 + i)) seriesV2(out, Uint8Array.of(1, 2, 3, (i & 127) | 128, ((i >> 7) & 127) | 128, i >> 14), () => sample(out))
  }),
  '2.0: empty symbols': v2((out, bytes) => times(bytes, 2, () => out.string(4, ''))),
  '2.0: the same symbol': v2((out, bytes) => times(bytes, 3, () => out.string(4, 'a'))),
  '2.0: series without anything': v2((out, bytes) => times(bytes, 2, () => out.blob(5, Uint8Array.of()))),
  '2.0: a series again and again': v2((out, bytes) => times(bytes, 24, (i) => seriesV2(out, REFS, () => nested(out, 2, () => out.int(2, MILLIS + i))))),
  '2.0: references of a series': v2((out, bytes) => seriesV2(out, Buffer.alloc(bytes, 3), () => sample(out))),
  '2.0: references one by one': v2((out, bytes) => nested(out, 5, () => times(bytes, 2, () => out.int(1, 3)))),
  '2.0: references in many lists': v2((out, bytes) => nested(out, 5, () => times(bytes, 4, () => out.blob(1, Uint8Array.of(1, 2))))),
  '2.0: references to what is not there': v2((out, bytes) => times(bytes, 24, (i) => seriesV2(out, Uint8Array.of(1, 2, 3, 5 + (i % 100)), () => sample(out)))),
  '2.0: long labels of new series': v2(
    (out, bytes) => {
      for (const i of range(1000, (i) => i)) out.string(4, `v${i}`)
      times(bytes, 30, (i) => seriesV2(out, Uint8Array.of(1, 2, 3, 4, 3, 0x85 + (i % 100), 1), () => sample(out)))
    },
    200_000,
    'x'.repeat(4000),
  ),
  '2.0: long labels that are refused': v2(
    (out, bytes) => times(bytes, 24, () => seriesV2(out, Uint8Array.of(1, 2, 3, 4, 3, 4), () => sample(out))),
    200_000,
    'x'.repeat(100_000),
  ),
  '2.0: exemplars that are none, of series with long labels': v2(
    (out, bytes) => times(bytes, 14, () => seriesV2(out, REFS, () => nested(out, 4, () => out.blob(1, Uint8Array.of(99, 99))))),
    400_000,
    'x'.repeat(100_000),
  ),
  '2.0: empty exemplars of series with long labels': v2(
    (out, bytes) => times(bytes, 10, () => seriesV2(out, REFS, () => out.blob(4, Uint8Array.of()))),
    400_000,
    'x'.repeat(100_000),
  ),
  '2.0: metadata of a long text': v2(
    (out, bytes) =>
      times(bytes, 34, (i) =>
        seriesV2(out, REFS, () => {
          sample(out, MILLIS + i)
          nested(out, 5, () => {
            out.int(1, i % 8)
            out.int(3, i % 2 === 0 ? 4 : 3)
          })
        }),
      ),
    400_000,
    'x'.repeat(60_000),
  ),
  '2.0: custom boundaries': v2((out, bytes) =>
    times(bytes, 900, (i) =>
      seriesV2(out, REFS, () =>
        histogram(out, 3, () => {
          out.sint(4, -53)
          span(out, 0, 100)
          out.blob(12, new Uint8Array(100))
          out.doubles(
            16,
            range(99, (b) => b + (i % 50)),
          )
        }),
      ),
    ),
  ),
}

t.test('remote write', async (t) => {
  const node = await growthNode(t, ['remote_write', 'exemplars'])
  await requestsGrow(t, node, REQUESTS)
})

t.test('compressed bodies that are none, or far more than they are', async (t) => {
  const node = await growthNode(t, ['remote_write'])
  const raw = (body: (bytes: number) => Uint8Array): GrowingRequest => ({ url: WRITE, headers: V1, bytes: BYTES, body })
  await requestsGrow(t, node, {
    'copies of one byte': raw((bytes) => Buffer.concat([Buffer.from([0xff, 0xff, 0xff, 0x7f, 0, 0]), Buffer.alloc(bytes, Uint8Array.of(0x01, 0x01))])),
    'copies of many bytes': raw((bytes) => Buffer.concat([Buffer.from([0xff, 0xff, 0xff, 0x04, 0, 0]), Buffer.alloc(bytes, Uint8Array.of(0xfe, 1, 0))])),
    'literals of a byte': raw((bytes) => Buffer.concat([Buffer.from([0xff, 0xff, 0xff, 0x7f]), Buffer.alloc(bytes, Uint8Array.of(0, 0x0a))])),
    'a long length': raw((bytes) => Buffer.alloc(bytes, 0xff)),
    zeros: raw((bytes) => compressSync(Buffer.alloc(bytes * 20))),
  })
})
