/** Points a second from protobuf to columns on one core, 10 fields each: node plugins/grpc/points.bench.ts [points] */

import type { ServiceDefinition } from '@grpc/grpc-js'
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { FakeResolver } from 'svcdb/testkit'
import { PointsDecoder } from './points.ts'
import { packageDefinition, point } from './testing.ts'

const HOSTS = 1000
const POINTS = 10_000
const FIELDS = ['user', 'system', 'idle', 'nice', 'iowait', 'irq', 'softirq', 'steal', 'guest', 'guest_nice'].map((name) => `usage_${name}`)
const wanted = Number(process.argv[2] ?? 2_000_000)

const { requestSerialize, requestDeserialize } = (packageDefinition['svc.Service'] as ServiceDefinition).Write

function message(fields: (i: number) => Record<string, unknown>): Buffer {
  const points = Array.from({ length: POINTS }, (_, i) => {
    const tags = {
      hostname: `host_${i % HOSTS}`,
      region: 'eu-west-1',
      datacenter: 'eu-west-1a',
      rack: String(i % 100),
      os: 'Ubuntu16.04LTS',
      arch: 'x64',
      team: 'SF',
    }
    return point('cpu', BigInt(1_451_606_400 + Math.floor(i / HOSTS)) * 1_000_000_000n, tags, fields(i))
  })
  return requestSerialize({ points })
}

function report(name: string, points: number, bytes: number, milliseconds: number): void {
  const rate = Math.round(points / (milliseconds / 1000)).toLocaleString('en')
  console.log(`${name.padEnd(24)} ${rate.padStart(10)} points/s ${(bytes / milliseconds / 1000).toFixed(0).padStart(5)} MB/s`)
}

function run(name: string, input: Buffer): void {
  const resolver = new FakeResolver()
  const decoder = new PointsDecoder(resolver, 'default', 1 << 26, 7)
  const batch = new WriteBatch(resolver)
  const decode = () => {
    const { rows } = atOnce(decoder.decode(input, batch, { now: 0n, maxFields: 1024, maxFailures: 16 }))
    batch.reset()
    return rows
  }
  decode()
  let points = 0
  const begun = performance.now()
  while (points < wanted) points += decode()
  report(name, points, (points / POINTS) * input.length, performance.now() - begun)
}

const floats = message((i) => Object.fromEntries(FIELDS.map((name, j) => [name, (i * 7 + j) / 100])))
run('float64', floats)
run(
  'int64',
  message((i) => Object.fromEntries(FIELDS.map((name, j) => [name, BigInt(i * 7 + j)]))),
)
run(
  'string',
  message((i) => Object.fromEntries(FIELDS.map((name) => [name, `state ${i % 7}`]))),
)
run(
  'one float64',
  message((i) => ({ usage: i / 100 })),
)
const begun = performance.now()
for (let i = 0; i < 5; i++) requestDeserialize(floats)
report('protobufjs, to objects', 5 * POINTS, 5 * floats.length, performance.now() - begun)
