/** Requests that are made to hold the event loop: each is valid enough to be worked on, and as large or as many-membered as its listener lets in. */
import { constants, gzipSync, zstdCompressSync } from 'node:zlib'
import { compressSync } from 'snappy'
import type { ProtobufWriter } from 'svcdb/lib/protobuf'
import {
  type AttackBody,
  bytesOf,
  FORM,
  filled,
  type HttpBody,
  http,
  JSON_TYPE,
  MILLIS,
  message,
  NANOS,
  nested,
  PROTOBUF,
  range,
  sumOf,
  TEXT,
  V1,
  V2,
} from './loop-body.ts'
import { exemplarBodies } from './loop-exemplars.ts'
import { grpcCalls } from './loop-grpc.ts'
import { listingBodies } from './loop-listings.ts'
import { planeBodies } from './loop-plane.ts'
import { wideBodies } from './loop-wide.ts'

/** @param scale 1 = as large as listeners take by default; less for a quick run. */
export function attackBodies(scale: number): AttackBody[] {
  const size = (most: number): number => Math.max(1, Math.ceil(most * scale))
  const body = size(10_000_000)
  const frame = size(60_000_000)
  const points = size(100_000)
  return [
    ...controlBodies(body),
    ...controlBodies(size(1_000_000)).map((each) => ({ ...each, name: `${each.name}, 1 MB` })),
    ...promqlBodies(size),
    ...exemplarBodies(size),
    ...planeBodies(size),
    ...jsonWrites(body, points, size),
    ...lineWrites(body, points, size),
    ...remoteWrites(size),
    ...otlpWrites(size, body),
    ...grpcCalls(frame, points, size),
    ...listingBodies(size),
    ...wideBodies(size),
  ]
}

function controlBodies(body: number): HttpBody[] {
  const keys = () => `{"query":"SELECT 1",${filled(body, (i) => `"k${i}":0`)}}`
  const nestedArrays = () => `${'['.repeat(body / 2)}${']'.repeat(body / 2)}`
  const objects = () => `${'{"a":'.repeat(body / 6)}0${'}'.repeat(body / 6)}`
  return [
    ...['/api/v1/svc/sql', '/api/v1/svc/query', '/api/v1/delete', '/api/v1/delete_batch', '/api/v1/export/parquet', '/api/v1/admin/backup'].flatMap((path) => [
      http(`${path}: JSON keys`, path, JSON_TYPE, keys),
      http(`${path}: JSON nesting`, path, JSON_TYPE, nestedArrays),
    ]),
    http('/api/v1/svc/sql: nested objects', '/api/v1/svc/sql', JSON_TYPE, objects),
    http('/api/v1/svc/sql: long text', '/api/v1/svc/sql', JSON_TYPE, () => `{"query":"SELECT '${'x'.repeat(body)}'"}`),
    http('/api/v1/svc/sql: escapes', '/api/v1/svc/sql', JSON_TYPE, () => `{"query":"${'\\u0041'.repeat(body / 6)}"}`),
    http('/api/v1/svc/sql: parameters', '/api/v1/svc/sql', JSON_TYPE, () => `{"query":"SELECT 1","params":[${filled(body, () => '0')}]}`),
    http('/api/v1/svc/query: fields', '/api/v1/svc/query', JSON_TYPE, () => `{"measurement":"m","fields":[${filled(body, (i) => `"f${i}"`)}]}`),
    http(
      '/api/v1/delete_batch: many',
      '/api/v1/delete_batch',
      JSON_TYPE,
      () => `{"deletes":[${filled(body, (i) => `{"measurement":"m","tags":{"host":"h${i}"}}`)}]}`,
    ),
  ]
}

function promqlBodies(size: (most: number) => number): AttackBody[] {
  // With its escapes as large as a form may be.
  const text = size(300_000)
  const form = (name: string, path: string, fields: () => string) => http(`PromQL ${name}`, path, FORM, fields)
  return [
    form('parentheses', '/api/v1/query', () => `query=${'('.repeat(text / 2)}1${')'.repeat(text / 2)}`),
    form('sums', '/api/v1/query', () => `query=${encodeURIComponent(filled(text / 4, () => '1', '+'))}`),
    form('matchers', '/api/v1/query', () => `query=${encodeURIComponent(`m{${filled(text, (i) => `l${i}="v"`)}}`)}`),
    form('regex', '/api/v1/query', () => `query=${encodeURIComponent(`m{a=~"${filled(text, (i) => `(a${i}|b)`, '|')}"}`)}`),
    form('strings', '/api/v1/query', () => `query=${encodeURIComponent(`label_replace(m,"a","${'$1'.repeat(text / 2)}","b","(.*)")`)}`),
    form('100,000 match[]', '/api/v1/series', () => filled(size(3_000_000), (i) => `match%5B%5D=m${i}`, '&')),
    // A plus sign is a space in a form, and all else in it stands for itself.
    form('syntax tree', '/api/v1/parse_query', () => `query=${sumOf(range(size(40_000), (i) => `n{a="${i}"}`)).replaceAll('+', '%2B')}`),
    form('fields', '/api/v1/query', () => filled(size(10_000_000), (i) => `f${i}=1`, '&')),
    form('escapes', '/api/v1/query', () => `query=${'%41'.repeat(size(10_000_000) / 3)}`),
    http('remote read: queries', '/api/v1/prom/read', PROTOBUF, () =>
      compressSync(
        Buffer.from(
          message((out) => {
            for (let i = 0; i < size(200_000); i++) {
              nested(out, 1, () => {
                out.int(1, MILLIS)
                out.int(2, MILLIS + 1)
                nested(out, 3, () => {
                  out.int(1, 2)
                  out.string(2, 'a')
                  out.string(3, `(a|b)*${i}`)
                })
              })
            }
          }),
        ),
      ),
    ),
    http('remote read: regex', '/api/v1/prom/read', PROTOBUF, () =>
      compressSync(
        Buffer.from(
          message((out) =>
            nested(out, 1, () => {
              out.int(2, MILLIS)
              nested(out, 3, () => {
                out.int(1, 2)
                out.string(2, 'a')
                out.string(
                  3,
                  filled(size(9_000_000), (i) => `a${i}`, '|'),
                )
              })
            }),
          ),
        ),
      ),
    ),
  ]
}

function jsonWrites(body: number, points: number, size: (most: number) => number): AttackBody[] {
  const write = (name: string, text: () => string) => http(`JSON write: ${name}`, '/api/v1/write', JSON_TYPE, text)
  const point = (measurement: string, tags: string, fields: string): string =>
    `{"measurement":"${measurement}","tags":{${tags}},"fields":{${fields}},"timestamp":${NANOS}}`
  const many = (item: (i: number) => string) => `[${range(points, item).join(',')}]`
  return [
    write('nesting', () => '['.repeat(body)),
    write('known series', () => many(() => point('jk', '"h":"a"', '"v":1'))),
    write('new series', () => many((i) => point('js', `"h":"a${i}"`, '"v":1'))),
    write('new measurements', () => `[${range(size(5000), (i) => point(`jm${i}`, '', '"v":1')).join(',')}]`),
    write(
      'keys of fields',
      () =>
        `[${point(
          'jf',
          '',
          filled(body, (i) => `"f${i}":1`),
        )}]`,
    ),
    write(
      'keys of tags',
      () =>
        `[${point(
          'jt',
          filled(body, (i) => `"t${i}":"v"`),
          '"v":1',
        )}]`,
    ),
    write('new fields', () => many((i) => point('jn', '', `"f${i}":1`))),
    write('long string', () => `[${point('jl', '', `"v":"${'x'.repeat(body)}"`)}]`),
    write('escapes', () => `[${point('je', '', `"v":"${'\\u00e4'.repeat(body / 6)}"`)}]`),
    write('long tag', () => `[${point('jg', `"h":"${'x'.repeat(body)}"`, '"v":1')}]`),
    write('long name', () => `[${point('x'.repeat(body), '', '"v":1')}]`),
    write('spaces', () => `[${' '.repeat(body)}]`),
    write('digits', () => `[${point('jd', '', `"v":${'1'.repeat(body)}`)}]`),
    write('digits of what is no decimal', () => `[${point('jc', '', `"v":{"decimal":"${'1'.repeat(body)}x"}`)}]`),
  ]
}

function lineWrites(body: number, points: number, size: (most: number) => number): AttackBody[] {
  const write = (name: string, text: () => string | Uint8Array, headers: Record<string, string> = TEXT) =>
    http(`line protocol: ${name}`, '/write', headers, text)
  const lines = (count: number, item: (i: number) => string): string => range(count, item).join('\n')
  return [
    write('known series', () => lines(points, (i) => `lk,h=a v=1 ${NANOS + BigInt(i)}`)),
    write('wide rows', () => filled(body, (i) => `lw,h=a ${range(20, (f) => `f${f}=${i}`).join(',')} ${NANOS + BigInt(i)}`, '\n')),
    write('new series', () => lines(points, (i) => `ls,h=a${i} v=1 ${NANOS}`)),
    write('new series of ten tags', () => filled(body, (i) => `lt,${range(10, (t) => `t${t}=v${i}`).join(',')} v=1 ${NANOS}`, '\n')),
    write('5,000 new measurements', () => lines(size(5000), (i) => `lm${i} v=1 ${NANOS}`)),
    write('100,000 new measurements', () => lines(points, (i) => `ln${i} v=1 ${NANOS}`)),
    write('new measurements of two fields', () => lines(points, (i) => `lo${i} v=1,w=2 ${NANOS}`)),
    write('new fields', () => lines(points, (i) => `lf f${i}=1 ${NANOS}`)),
    write('new fields of one line', () => `lg ${filled(body, (i) => `f${i}=1`)} ${NANOS}`),
    write('two types', () => lines(points, (i) => `ly v=${i % 2 === 0 ? '1' : '1i'} ${NANOS}`)),
    write('digits', () => `ld v=0.${'1'.repeat(body)} ${NANOS}`),
    write('digits of a decimal', () => `lc v=${'1'.repeat(body)}d ${NANOS}`),
    write('long field name', () => `lz ${'f'.repeat(body)}=1 ${NANOS}`),
    write('long tag', () => `ll,h=${'x'.repeat(body)} v=1 ${NANOS}`),
    write('many tags', () => `lq,${filled(body, (i) => `t${i}=v`)} v=1 ${NANOS}`),
    write('long string', () => `lr v="${'x'.repeat(body)}" ${NANOS}`),
    write('long strings', () => lines(size(150), () => `lr v="${'x'.repeat(65_000)}" ${NANOS}`)),
    write('empty lines', () => '\n'.repeat(body)),
    write('comments', () => '#\n'.repeat(body / 2)),
    write('one comment', () => '#'.repeat(body)),
    write('faulty lines', () => 'a\n'.repeat(body / 2)),
    write('too old', () => lines(points, (i) => `lu v=1 ${i}`)),
    http('line protocol: gzip bomb', '/write', { ...TEXT, 'content-encoding': 'gzip' }, () => gzipSync(Buffer.alloc(body, '\n'))),
    http('line protocol: zstd bomb', '/write', { ...TEXT, 'content-encoding': 'zstd' }, () => zstdCompressSync(Buffer.alloc(body * 40))),
  ]
}

function remoteWrites(size: (most: number) => number): AttackBody[] {
  const path = '/api/v1/prom/write'
  const write = (name: string, headers: Record<string, string>, text: () => Uint8Array) =>
    http(`remote write ${name}`, path, headers, () => compressSync(bytesOf(text())))
  const most = size(32_000_000)
  const sample = (out: ProtobufWriter, ms: number): void =>
    nested(out, 2, () => {
      out.double(1, 1)
      out.int(2, ms)
    })
  const series = (out: ProtobufWriter, name: string, labels: Record<string, string>, samples: number): void =>
    nested(out, 1, () => {
      for (const [key, value] of Object.entries({ __name__: name, ...labels })) {
        nested(out, 1, () => {
          out.string(1, key)
          out.string(2, value)
        })
      }
      for (let i = 0; i < samples; i++) sample(out, MILLIS + i)
    })
  return [
    write('1.0: empty series', V1, () => Buffer.alloc(most, Uint8Array.of(0x0a, 0))),
    write('1.0: samples of one series', V1, () => message((out) => series(out, 'r1', { a: 'b' }, size(1_000_000)), most)),
    write('1.0: new series', V1, () =>
      message((out) => {
        for (let i = 0; i < size(200_000); i++) series(out, 'r2', { a: `v${i}` }, 1)
      }),
    ),
    write('1.0: new metrics', V1, () =>
      message((out) => {
        for (let i = 0; i < size(50_000); i++) series(out, `r3_${i}`, {}, 1)
      }),
    ),
    write('1.0: labels', V1, () => message((out) => series(out, 'r4', Object.fromEntries(range(size(1_000_000), (i) => [`l${i}`, 'v'])), 1))),
    write('1.0: metadata', V1, () =>
      message((out) => {
        for (let i = 0; i < size(500_000); i++) {
          nested(out, 3, () => {
            out.int(1, 1)
            out.string(2, `meta_${i}`)
            out.string(4, 'help')
          })
        }
      }),
    ),
    write('2.0: empty symbols', V2, () => Buffer.alloc(most, Uint8Array.of(0x22, 0))),
    write('2.0: symbols', V2, () =>
      message((out) => {
        out.string(4, '')
        for (let i = 0; i < size(3_000_000); i++) out.string(4, `s${i}`)
      }),
    ),
    write('2.0: new series', V2, () =>
      message((out) => {
        for (const text of ['', '__name__', 'r5', 'a', ...range(size(200_000), (i) => `v${i}`)]) out.string(4, text)
        for (let i = 0; i < size(200_000); i++) {
          nested(out, 5, () => {
            for (const ref of [1, 2, 3, 4 + i]) out.int(1, ref)
            sample(out, MILLIS)
          })
        }
      }),
    ),
    write('2.0: one long help text', V2, () =>
      message((out) => {
        for (const text of ['', '__name__', 'x'.repeat(size(10_000_000)), ...range(2000, (i) => `r7_${i}`)]) out.string(4, text)
        for (let i = 0; i < 2000; i++) {
          nested(out, 5, () => {
            for (const ref of [1, 3 + i]) out.int(1, ref)
            sample(out, MILLIS)
            nested(out, 5, () => out.int(3, 2))
          })
        }
      }),
    ),
    write('2.0: one long label', V2, () =>
      message((out) => {
        for (const text of ['', '__name__', 'r8', 'a', 'x'.repeat(size(1_000_000)), ...range(2000, (i) => `v${i}`)]) out.string(4, text)
        for (let i = 0; i < size(100_000); i++) {
          nested(out, 5, () => {
            for (const ref of [1, 2, 3, 4, 5 + (i % 2000), 4]) out.int(1, ref)
            sample(out, MILLIS)
          })
        }
      }),
    ),
    write('2.0: tags that new series share', V2, () =>
      message((out) => {
        const tags = range(60, (i) => `t${i}`)
        for (const text of ['', '__name__', 'r9', 'x'.repeat(4000), 'a', ...tags, ...range(1000, (i) => `v${i}`)]) out.string(4, text)
        for (let i = 0; i < 1000; i++) {
          nested(out, 5, () => {
            for (const ref of [1, 2, 4, 65 + i, ...tags.flatMap((_, tag) => [5 + tag, 3])]) out.int(1, ref)
            sample(out, MILLIS)
          })
        }
      }),
    ),
    write('2.0: references', V2, () =>
      message((out) => {
        for (const text of ['', '__name__', 'r6', 'a']) out.string(4, text)
        for (let i = 0; i < size(3000); i++) {
          nested(out, 5, () => {
            out.blob(1, Buffer.alloc(10_000, 1))
            sample(out, MILLIS)
          })
        }
      }),
    ),
  ]
}

function otlpWrites(size: (most: number) => number, body: number): AttackBody[] {
  const path = '/v1/metrics'
  const plain = (name: string, bytes: () => Uint8Array) =>
    http(`OTLP ${name}`, path, { ...PROTOBUF, 'content-encoding': 'gzip' }, () => gzipSync(bytes(), { level: constants.Z_BEST_SPEED }))
  const json = (name: string, text: () => string) => http(`OTLP/JSON ${name}`, path, JSON_TYPE, text)
  const most = size(32_000_000)
  const metrics = (write: (out: ProtobufWriter) => void, capacity = 1024): Uint8Array =>
    message((out) => nested(out, 1, () => nested(out, 2, () => write(out))), capacity)
  const metric = (name: string, field: number, write: (out: ProtobufWriter) => void): Uint8Array =>
    metrics(
      (out) =>
        nested(out, 2, () => {
          out.string(1, name)
          nested(out, field, () => write(out))
        }),
      most + 1024,
    )
  const attribute = (out: ProtobufWriter, field: number, key: string, value: string): void =>
    nested(out, field, () => {
      out.string(1, key)
      nested(out, 2, () => out.string(1, value))
    })
  const times = (out: ProtobufWriter): void => {
    out.fixed64(3, Number(NANOS & 0xffffffffn) | 0, Number(NANOS >> 32n))
    out.double(4, 1)
  }
  const filledWith = (...pair: number[]): Uint8Array => Buffer.alloc(most - (most % pair.length), Uint8Array.from(pair))
  return [
    plain('empty resources', () => filledWith(0x0a, 0)),
    plain('empty scopes', () => message((out) => out.blob(1, filledWith(0x12, 0)))),
    plain('empty metrics', () => metrics((out) => out.append(filledWith(0x12, 0)), most)),
    plain('empty points', () => metric('o1', 5, (out) => out.append(filledWith(0x0a, 0)))),
    plain('empty attributes', () => metric('o2', 5, (out) => nested(out, 1, () => out.append(filledWith(0x3a, 0))))),
    plain('attributes of a resource', () => message((out) => nested(out, 1, () => nested(out, 1, () => out.append(filledWith(0x0a, 0)))))),
    plain('a metric in parts', () => metrics((out) => nested(out, 2, () => out.append(filledWith(0x2a, 2, 0x0a, 0))), most)),
    plain('points', () =>
      metric('o3', 5, (out) => {
        for (let i = 0; i < size(1_000_000); i++) nested(out, 1, () => times(out))
      }),
    ),
    plain('new series', () =>
      metric('o4', 5, (out) => {
        for (let i = 0; i < size(200_000); i++) {
          nested(out, 1, () => {
            times(out)
            attribute(out, 7, 'a', `v${i}`)
          })
        }
      }),
    ),
    plain('new metrics', () =>
      metrics((out) => {
        for (let i = 0; i < size(50_000); i++) {
          nested(out, 2, () => {
            out.string(1, `o5_${i}`)
            nested(out, 5, () => nested(out, 1, () => times(out)))
          })
        }
      }),
    ),
    plain('buckets', () =>
      metric('o6', 10, (out) =>
        nested(out, 1, () => {
          times(out)
          nested(out, 8, () => out.blob(2, new Uint8Array(most).fill(1)))
        }),
      ),
    ),
    plain('many histograms', () =>
      metric('o7', 10, (out) => {
        for (let i = 0; i < size(500); i++)
          nested(out, 1, () => {
            out.fixed64(3, Number(NANOS & 0xffffffffn) | 0, Number(NANOS >> 32n))
            out.fixed64(4, 60_000, 0)
            nested(out, 8, () => out.blob(2, new Uint8Array(60_000).fill(1)))
          })
      }),
    ),
    plain('a long value', () => metric('o8', 5, (out) => nested(out, 1, () => attribute(out, 7, 'a', 'x'.repeat(size(9_000_000)))))),
    plain('nested values', () =>
      metric('o9', 5, (out) => nested(out, 1, () => nested(out, 7, () => nested(out, 2, () => nested(out, 5, () => out.append(filledWith(0x0a, 0))))))),
    ),
    json('keys', () => `{${filled(body, (i) => `"k${i}":0`)}}`),
    json('nesting', () => `${'['.repeat(body / 2)}${']'.repeat(body / 2)}`),
    json('empty metrics', () => `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[${filled(body, () => '{}')}]}]}]}`),
    json(
      'points',
      () =>
        `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"p1","gauge":{"dataPoints":[${filled(body, (i) => `{"asDouble":1,"timeUnixNano":"${NANOS}","attributes":[{"key":"a","value":{"stringValue":"${i}"}}]}`)}]}}]}]}]}`,
    ),
    json(
      'buckets',
      () =>
        `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"p2","histogram":{"dataPoints":[{"timeUnixNano":"${NANOS}","bucketCounts":[${filled(body, () => '"1"')}]}]}}]}]}]}`,
    ),
  ]
}
