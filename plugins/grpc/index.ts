import { definePlugin } from 'svcdb'
import { GrpcListener, Health } from 'svcdb/lib/grpc'
import { configSchema } from './config.ts'
import { Reflection } from './reflection.ts'
import { SERVICE, serviceMethods } from './service.ts'

export default definePlugin({
  id: 'grpc',
  summary: 'Writes, queries and administers measurements over gRPC',
  stability: 'stable',
  protocols: ['grpc'],
  config: configSchema,
  includes: ['analytics'],
  capabilities: ['points'],
  provides: ['grpc_listener'],
  setup(svc, config) {
    const health = new Health([SERVICE], () => svc.notReady())
    const reflection = config.reflection ? new Reflection() : undefined
    if (reflection !== undefined) svc.start(() => reflection.load())
    const methods = [...serviceMethods(svc, config), ...health.methods, ...(reflection?.methods ?? [])]
    const listener = new GrpcListener(svc, config, methods)
    svc.provide('grpc_listener', listener)
    svc.ready(() => listener.start())
    svc.stopping.addEventListener('abort', () => health.stop(), { once: true })
    svc.drain(async () => {
      health.stop()
      await listener.drain()
    })
    svc.stop(() => listener.stop())
  },
})
