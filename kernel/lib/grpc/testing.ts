/** For tests: a node with a listener of a few methods, and a client for it. */

import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js'
import type { Test } from 'tap'
import type { CallContext } from '../../index.ts'
import { definePlugin, type Svc } from '../../plugin.ts'
import { type BootOptions, boot } from '../../testkit/index.ts'
import { Type } from '../schema/index.ts'
import { grpcListenerKeys } from './config.ts'
import { GrpcListener } from './listener.ts'
import type { GrpcMethod } from './method.ts'

export const identity = (bytes: Uint8Array): Buffer => Buffer.from(bytes)

export interface Held {
  listener: GrpcListener<CallContext>
  svc: Svc
}

export function pluginOf(methods: (svc: Svc) => GrpcMethod<CallContext>[], held: Partial<Held>) {
  return definePlugin({
    id: 'echo',
    summary: 'Answers',
    stability: 'stable',
    config: Type.Object(grpcListenerKeys(0)),
    setup(svc, config) {
      const listener = new GrpcListener(svc, config, methods(svc))
      Object.assign(held, { listener, svc })
      svc.ready(() => listener.start())
      svc.drain(() => listener.drain())
      svc.stop(() => listener.stop())
    },
  })
}

export async function start(t: Test, methods: GrpcMethod<CallContext>[], options: BootOptions & { section?: Record<string, unknown> } = {}) {
  const held: Partial<Held> = {}
  const { section, ...rest } = options
  const config = { ...rest.config, echo: { addr: '127.0.0.1:0', ...section } }
  const node = await boot({ ...rest, plugins: [pluginOf(() => methods, held), ...(rest.plugins ?? [])], config })
  const { listener } = held as Held
  const client = new Client(`127.0.0.1:${listener.port}`, credentials.createInsecure(), {
    'grpc.max_receive_message_length': -1,
    'grpc.max_send_message_length': -1,
  })
  t.teardown(async () => {
    client.close()
    await node.stop()
  })
  return { node, client, listener, port: listener.port }
}

export interface Answer {
  error?: ServiceError
  message?: Buffer
  header: Metadata | undefined
}

export function unary(client: Client, path: string, message: Uint8Array, metadata = new Metadata(), options: { deadline?: number } = {}): Promise<Answer> {
  return new Promise((resolve) => {
    let header: Metadata | undefined
    const call = client.makeUnaryRequest(
      path,
      identity,
      (bytes) => bytes,
      Buffer.from(message),
      metadata,
      options,
      (error, value) => {
        resolve({ header, ...(error === null ? { message: value as Buffer } : { error }) })
      },
    )
    call.on('metadata', (given) => {
      header = given
    })
  })
}

export const echo: GrpcMethod<CallContext> = { path: '/t.S/Echo', action: 'read', carriesPoints: true, kind: 'unary', handle: (request) => request }
