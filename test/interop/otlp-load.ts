/** Requests of OTLP as a fleet of hosts sends them by way of a collector, made before the clock runs. */
import { ProtobufWriter } from '../../kernel/lib/protobuf/index.ts'

const METRICS = [
  'usage_user',
  'usage_system',
  'usage_idle',
  'usage_nice',
  'usage_iowait',
  'usage_irq',
  'usage_softirq',
  'usage_steal',
  'usage_guest',
  'usage_free',
]
const CORES = 10
export const POINTS_PER_HOST = METRICS.length * CORES
const DOUBLE = 4

function keyValue(out: ProtobufWriter, field: number, key: string, value: string): void {
  const attribute = out.open(field)
  out.string(1, key)
  const any = out.open(2)
  out.string(1, value)
  out.close(any)
  out.close(attribute)
}

/** ExportMetricsServiceRequest: a resource for each host, with gauges of ten data points each. @param at nanoseconds. */
export function request(hosts: number, at: bigint, random: () => number): Uint8Array {
  const out = new ProtobufWriter(1 << 20)
  const low = Number(at & 0xffff_ffffn)
  const high = Number(at >> 32n)
  for (let host = 0; host < hosts; host++) {
    const resourceMetrics = out.open(1)
    const resource = out.open(1)
    keyValue(out, 1, 'service.name', 'agent')
    keyValue(out, 1, 'host.name', `host_${host}`)
    keyValue(out, 1, 'cloud.region', `region-${host % 7}`)
    out.close(resource)
    const scopeMetrics = out.open(2)
    const scope = out.open(1)
    out.string(1, 'hostmetrics')
    out.close(scope)
    for (const name of METRICS) {
      const metric = out.open(2)
      out.string(1, `system.cpu.${name}`)
      out.string(3, '%')
      const gauge = out.open(5)
      for (let core = 0; core < CORES; core++) {
        const point = out.open(1)
        out.fixed64(3, low, high)
        out.double(DOUBLE, Math.round(random() * 100))
        keyValue(out, 7, 'cpu', `cpu${core}`)
        out.close(point)
      }
      out.close(gauge)
      out.close(metric)
    }
    out.close(scopeMetrics)
    out.close(resourceMetrics)
  }
  return out.take()
}
