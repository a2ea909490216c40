/** OTLP, in protobuf and in JSON: values within values, the same thing again and again, histograms of any shape. */
import type { ProtobufWriter } from 'svcdb/lib/protobuf'
import t from 'tap'
import { type Family, filled } from '../../support/growth.ts'
import { bytesOf, JSON_TYPE, message, NANOS, nested, PROTOBUF } from '../loop-body.ts'
import { type GrowingRequest, growthNode, requestsGrow } from './requests.ts'

const BYTES = 2_000_000
const URL = '/v1/metrics'
const [GAUGE, HISTOGRAM, EXPONENTIAL, SUMMARY] = [5, 9, 10, 11]
type Write = (out: ProtobufWriter, bytes: number) => void

const plain = (write: Write): GrowingRequest => ({ url: URL, headers: PROTOBUF, bytes: BYTES, body: (bytes) => bytesOf(message((out) => write(out, bytes))) })
const resource = (write: Write): GrowingRequest => plain((out, bytes) => nested(out, 1, () => write(out, bytes)))
const scope = (write: Write): GrowingRequest => resource((out, bytes) => nested(out, 2, () => write(out, bytes)))
const metric = (kind: number, write: Write): GrowingRequest =>
  scope((out, bytes) =>
    nested(out, 2, () => {
      out.string(1, `m${kind}`)
      nested(out, kind, () => write(out, bytes))
    }),
  )
const point = (kind: number, write: Write): GrowingRequest =>
  metric(kind, (out, bytes) =>
    nested(out, 1, () => {
      time(out)
      write(out, bytes)
    }),
  )
const time = (out: ProtobufWriter): void => out.fixed64(3, Number(NANOS & 0xffffffffn) | 0, Number(NANOS >> 32n))
const times = (bytes: number, of: number, item: (i: number) => void): void => {
  for (let i = 0; i < Math.max(1, Math.floor(bytes / of)); i++) item(i)
}
const attribute = (out: ProtobufWriter, field: number, key: string, value: string): void =>
  nested(out, field, () => {
    out.string(1, key)
    nested(out, 2, () => out.string(1, value))
  })
/** A value within a list or an object, so many levels. */
const deep = (levels: number, wrap: (out: ProtobufWriter, inner: Uint8Array) => void): Uint8Array => {
  let value: Uint8Array = message((out) => out.string(1, 'v'))
  for (let i = 0; i < levels; i++) {
    const inner = value
    value = message((out) => wrap(out, inner))
  }
  return value
}
const list = (out: ProtobufWriter, inner: Uint8Array): void => nested(out, 5, () => out.blob(1, inner))
const object = (out: ProtobufWriter, inner: Uint8Array): void =>
  nested(out, 6, () =>
    nested(out, 1, () => {
      out.string(1, 'k"')
      out.blob(2, inner)
    }),
  )
const holding = (value: (bytes: number) => Uint8Array): GrowingRequest =>
  point(GAUGE, (out, bytes) =>
    nested(out, 7, () => {
      out.string(1, 'a')
      out.blob(2, value(bytes))
    }),
  )

const gaugeOf = (out: ProtobufWriter, name: string): void => {
  out.string(1, name)
  nested(out, GAUGE, () =>
    nested(out, 1, () => {
      time(out)
      out.double(4, 1)
    }),
  )
}

const REQUESTS: Record<string, GrowingRequest> = {
  'empty resources': plain((out, bytes) => times(bytes, 2, () => out.blob(1, Uint8Array.of()))),
  'empty scopes': resource((out, bytes) => times(bytes, 2, () => out.blob(2, Uint8Array.of()))),
  'scopes of a name': resource((out, bytes) => times(bytes, 12, (i) => nested(out, 2, () => nested(out, 1, () => out.string(1, `s${i}`))))),
  'a metric in parts': scope((out, bytes) => nested(out, 2, () => times(bytes, 4, () => nested(out, GAUGE, () => out.blob(1, Uint8Array.of()))))),
  'a name again and again': scope((out, bytes) => nested(out, 2, () => times(bytes, 4, (i) => out.string(1, `n${i % 10}`)))),
  'a long name': scope((out, bytes) =>
    nested(out, 2, () => {
      out.string(1, 'a.'.repeat(bytes / 2))
      nested(out, GAUGE, () => nested(out, 1, () => time(out)))
    }),
  ),
  'a long unit': scope((out, bytes) =>
    nested(out, 2, () => {
      out.string(1, 'n')
      out.string(3, '{'.repeat(bytes / 2) + '/'.repeat(bytes / 2))
      nested(out, GAUGE, () => nested(out, 1, () => time(out)))
    }),
  ),
  'names that come to one': scope((out, bytes) =>
    times(bytes, 40, (i) =>
      nested(out, 2, () => {
        out.string(1, `n${'._-'[i % 3].repeat(1 + (i % 20))}x`)
        nested(out, GAUGE, () =>
          nested(out, 1, () => {
            time(out)
            out.double(4, 1)
          }),
        )
      }),
    ),
  ),
  'scopes of attributes': resource((out, bytes) =>
    times(bytes, 60, (i) =>
      nested(out, 2, () => {
        nested(out, 1, () => attribute(out, 3, 'a', `v${i}`))
        nested(out, 2, () => gaugeOf(out, 's'))
      }),
    ),
  ),
  'metrics of a scope of many attributes': scope((out, bytes) => {
    nested(out, 1, () => times(bytes / 2, 16, (i) => attribute(out, 3, `a${i}`, 'v')))
    times(bytes / 2, 32, (i) => nested(out, 2, () => gaugeOf(out, `s${i % 3}`)))
  }),
  'attributes of a resource': resource((out, bytes) => nested(out, 1, () => times(bytes, 16, (i) => attribute(out, 1, `a${i}`, 'v')))),
  'an attribute of a resource again and again': resource((out, bytes) => nested(out, 1, () => times(bytes, 12, () => attribute(out, 1, 'a', 'v')))),
  'attributes of a point': point(GAUGE, (out, bytes) => times(bytes, 16, (i) => attribute(out, 7, `a${i}`, 'v'))),
  'attributes between values': point(GAUGE, (out, bytes) =>
    times(bytes, 20, () => {
      out.double(4, 1)
      attribute(out, 7, 'a', 'v')
    }),
  ),
  'attributes that come to one': metric(GAUGE, (out, bytes) =>
    times(bytes, 300, (i) =>
      nested(out, 1, () => {
        time(out)
        out.double(4, 1)
        for (let a = 0; a < 16; a++) attribute(out, 7, `a${'._-'[(i + a) % 3].repeat(1 + a)}x`, 'v')
      }),
    ),
  ),
  'values of a list': holding((bytes) => message((out) => nested(out, 5, () => times(bytes, 2, () => out.blob(1, Uint8Array.of()))))),
  'members of an object': holding((bytes) => message((out) => nested(out, 6, () => times(bytes, 2, () => out.blob(1, Uint8Array.of()))))),
  'a value again and again': holding((bytes) => message((out) => times(bytes, 4, () => out.string(1, 'ab')))),
  'lists within lists': holding((bytes) => deep(Math.min(2000, bytes / 4), list)),
  'objects within objects': holding((bytes) => deep(Math.min(2000, bytes / 8), object)),
  'lists within lists of points': metric(GAUGE, (out, bytes) => {
    const value = deep(30, list)
    times(bytes, value.length + 30, () =>
      nested(out, 1, () => {
        time(out)
        out.double(4, 1)
        nested(out, 7, () => {
          out.string(1, 'a')
          out.blob(2, value)
        })
      }),
    )
  }),
  'bytes of a value': holding((bytes) => message((out) => out.blob(7, new Uint8Array(bytes)))),
  'quotes of a value': holding((bytes) => message((out) => nested(out, 5, () => nested(out, 1, () => out.string(1, '"'.repeat(bytes)))))),
  'bounds of a histogram': point(HISTOGRAM, (out, bytes) => out.blob(7, new Uint8Array(bytes & ~7))),
  'bounds one by one': point(HISTOGRAM, (out, bytes) => times(bytes, 9, (i) => out.double(7, i))),
  'counts of a histogram': point(HISTOGRAM, (out, bytes) => out.blob(6, new Uint8Array(bytes & ~7))),
  'histograms of bounds': metric(HISTOGRAM, (out, bytes) =>
    times(bytes, 1700, (i) =>
      nested(out, 1, () => {
        time(out)
        out.fixed64(4, 0, 0)
        out.blob(6, new Uint8Array(8 * 101))
        out.doubles(
          7,
          Array.from({ length: 100 }, (_, b) => b + i),
        )
      }),
    ),
  ),
  'exponential buckets': point(EXPONENTIAL, (out, bytes) => nested(out, 8, () => out.blob(2, new Uint8Array(bytes).fill(1)))),
  'exponential buckets in parts': point(EXPONENTIAL, (out, bytes) =>
    times(bytes, 6, (i) =>
      nested(out, 8, () => {
        out.sint(1, i)
        out.int(2, 1)
      }),
    ),
  ),
  'exponential histograms far away': metric(EXPONENTIAL, (out, bytes) =>
    times(bytes, 60, (i) =>
      nested(out, 1, () => {
        time(out)
        out.fixed64(4, 1, 0)
        out.sint(6, 20 - (i % 31))
        nested(out, 8, () => {
          out.sint(1, i % 2 === 0 ? 2 ** 31 - 2 : -(2 ** 31) + 2)
          out.blob(2, Uint8Array.of(1))
        })
      }),
    ),
  ),
  'exponential histograms of a fine scale': metric(EXPONENTIAL, (out, bytes) =>
    times(bytes, 200, () =>
      nested(out, 1, () => {
        time(out)
        out.fixed64(4, 160, 0)
        out.sint(6, 2 ** 30)
        nested(out, 8, () => out.blob(2, new Uint8Array(160).fill(1)))
      }),
    ),
  ),
  'quantiles of a summary': point(SUMMARY, (out, bytes) => times(bytes, 12, (i) => nested(out, 6, () => out.double(1, i)))),
  exemplars: point(GAUGE, (out, bytes) => times(bytes, 2, () => out.blob(5, Uint8Array.of()))),
  'exemplars of attributes': point(GAUGE, (out, bytes) => nested(out, 5, () => times(bytes, 12, () => attribute(out, 7, 'a', 'v')))),
  'exemplars of a resource of long attributes': resource((out, bytes) => {
    nested(out, 1, () => times(60_000, 1000, (i) => attribute(out, 1, `a${i}`, 'x'.repeat(990))))
    nested(out, 2, () =>
      nested(out, 2, () => {
        out.string(1, 'e')
        nested(out, GAUGE, () =>
          times(bytes, 24, () =>
            nested(out, 1, () => {
              time(out)
              out.double(4, 1)
              out.blob(5, Uint8Array.of(0x22, 1, 0))
            }),
          ),
        )
      }),
    )
  }),
}

const json = (body: Family<string>): GrowingRequest => ({ url: URL, headers: JSON_TYPE, bytes: BYTES, body })
const jsonPoint = (body: Family<string>): GrowingRequest =>
  json((bytes) => `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"j","gauge":{"dataPoints":[{"timeUnixNano":"${NANOS}",${body(bytes)}}]}}]}]}]}`)
const jsonValue = (body: Family<string>): GrowingRequest => jsonPoint((bytes) => `"asDouble":1,"attributes":[{"key":"a","value":${body(bytes)}}]`)

const JSON_REQUESTS: Record<string, GrowingRequest> = {
  digits: jsonPoint((bytes) => `"asInt":${'1'.repeat(bytes)}`),
  'digits as text': jsonPoint((bytes) => `"asInt":"${'1'.repeat(bytes)}"`),
  'digits of a fraction': jsonPoint((bytes) => `"asDouble":0.${'1'.repeat(bytes)}`),
  'digits of a fraction as text': jsonPoint((bytes) => `"asDouble":"0.${'1'.repeat(bytes)}x"`),
  'a member again and again': jsonPoint((bytes) => `${filled(bytes, '"asDouble":1,')}"flags":0`),
  'members that nobody knows': jsonPoint((bytes) => filled(bytes, (i) => `"k${i}":0`, ',')),
  'names of objects': jsonPoint((bytes) => `${filled(bytes, '"__proto__":{},"constructor":1,')}"flags":0`),
  'lists within lists': jsonValue((bytes) => `${'{"arrayValue":{"values":['.repeat(bytes / 30)}{}${']}}'.repeat(bytes / 30)}`),
  'values of a list': jsonValue((bytes) => `{"arrayValue":{"values":[${filled(bytes, '{},')}{}]}}`),
  'members of an object': jsonValue((bytes) => `{"kvlistValue":{"values":[${filled(bytes, '{"key":"k"},')}{}]}}`),
  'base64 of a value': jsonValue((bytes) => `{"bytesValue":"${'A'.repeat(bytes)}!"}`),
  escapes: jsonValue((bytes) => `{"stringValue":"${'\\u0001'.repeat(bytes / 6)}"}`),
  exemplars: jsonPoint((bytes) => `"exemplars":[${filled(bytes, '{},')}{}]`),
  'ids of exemplars': jsonPoint((bytes) => `"exemplars":[{"traceId":"${'a'.repeat(bytes)}x"}]`),
  brackets: json((bytes) => '['.repeat(bytes)),
  points: json((bytes) => `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"j","gauge":{"dataPoints":[${filled(bytes, '{},')}{}]}}]}]}]}`),
}

t.test('OTLP', async (t) => {
  const node = await growthNode(t, ['otlp', 'exemplars'])
  await requestsGrow(t, node, REQUESTS)
})

t.test('OTLP/JSON', async (t) => {
  const node = await growthNode(t, ['otlp', 'exemplars'])
  await requestsGrow(t, node, JSON_REQUESTS)
})
