/** The methods of svc.Service. */

import { type Action, type CallContext, type MeasurementInfo, NAMESPACES, type NamespaceLifecycle, type Svc, VERSION } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { inTurns } from 'svcdb/lib/event-loop'
import type { GrpcCall, GrpcMessage, GrpcMethod } from 'svcdb/lib/grpc'
import { deleteResponse, EMPTY, listMeasurementsResponse, schemaResponse, serverInfoResponse } from './answers.ts'
import type { GrpcPluginConfig } from './config.ts'
import { DedupKeys } from './dedup-keys.ts'
import { Queries } from './queries.ts'
import { deleteRequest, measurementName, nothing } from './requests.ts'
import { StreamWrite } from './stream.ts'
import { Subscriptions } from './subscriptions.ts'
import { PointWriter } from './write.ts'

export const SERVICE = 'svc.Service'
const STREAM_WRITE = `/${SERVICE}/StreamWrite`
const SUBSCRIBE = `/${SERVICE}/Subscribe`

type Answer = (request: Uint8Array, call: GrpcCall<CallContext>) => GrpcMessage | Promise<GrpcMessage>

export function serviceMethods(svc: Svc, config: GrpcPluginConfig): GrpcMethod<CallContext>[] {
  const keys = new DedupKeys(svc)
  const writer = new PointWriter(svc, config, keys)
  const queries = new Queries(svc, config)
  const subscriptions = new Subscriptions(svc, config, SUBSCRIBE)
  svc.start(() => svc.find<NamespaceLifecycle>(NAMESPACES)?.onEnd((namespace) => keys.forget(namespace)))
  const startedAt = svc.clock.monotonic()
  const unary = (name: string, action: Action, handle: Answer): GrpcMethod<CallContext> => ({ path: `/${SERVICE}/${name}`, action, kind: 'unary', handle })
  const measurements = ({ context }: GrpcCall<CallContext>, only?: string): Promise<MeasurementInfo[]> => svc.storage.measurements(context.dataNamespace, only)
  return [
    { ...unary('Write', 'write', (request, call) => svc.ingest.attempt(call.context, () => writer.write(request, call))), carriesPoints: true },
    {
      path: STREAM_WRITE,
      action: 'write',
      carriesPoints: true,
      kind: 'client_stream',
      handle: (requests, call) => svc.ingest.attempt(call.context, () => new StreamWrite(writer, call, keys, STREAM_WRITE).run(requests)),
    },
    { path: `/${SERVICE}/Query`, action: 'read', kind: 'server_stream', handle: (request, call, send) => queries.query(request, call, send) },
    { path: SUBSCRIBE, action: 'read', kind: 'server_stream', handle: (request, call, send) => subscriptions.subscribe(request, call, send) },
    unary('ExecuteSql', 'read', (request, call) => queries.sql(request, call)),
    unary('GetSchema', 'read', async (request, call) => {
      const name = measurementName(request)
      const [known] = await measurements(call, name)
      if (known === undefined)
        throw new SvcError('NOT_FOUND', `cannot find measurement "${name.slice(0, 256)}": there is none of this name; ListMeasurements lists them`)
      return schemaResponse(known)
    }),
    unary('ListMeasurements', 'read', async (request, call) => {
      nothing(request)
      return inTurns(listMeasurementsResponse(await measurements(call)))
    }),
    unary('ServerInfo', 'read', async (request, call) => {
      nothing(request)
      const { total } = await svc.storage.measurementsPage({ namespace: call.context.dataNamespace, limit: 0 })
      return serverInfoResponse(VERSION, Math.floor((svc.clock.monotonic() - startedAt) / 1000), total)
    }),
    unary('Delete', 'delete', async (request, { context }) => {
      return deleteResponse(await svc.storage.delete({ namespace: context.dataNamespace, ...deleteRequest(request, svc.server.max_body_members) }))
    }),
    unary('DropMeasurement', 'delete', async (request, { context }) => {
      await svc.storage.drop(context.dataNamespace, measurementName(request), { final: svc.server.multi_tenancy })
      return EMPTY
    }),
  ]
}
