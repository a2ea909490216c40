import { definePlugin } from 'svcdb'
import { configSchema } from './config.ts'
import { metricsListener } from './listener.ts'

export default definePlugin({
  id: 'otlp_grpc',
  summary: 'A listener for OTLP metrics over gRPC on the port that exporters look for',
  stability: 'beta',
  config: configSchema,
  requires: ['otlp_export'],
  provides: ['otlp_grpc_listener'],
  setup(svc, config) {
    const listener = metricsListener(svc, config)
    svc.provide('otlp_grpc_listener', listener)
    svc.ready(() => listener.start())
    svc.drain(() => listener.drain())
    svc.stop(() => listener.stop())
  },
})
