/** For tests: nodes over one data directory, one after the other. */
import type { LightMyRequestResponse } from 'fastify'
import type { Plugin } from 'svcdb'
import { Logs, resolveConfig, SvcNode } from 'svcdb/testkit'
import line from '../line_protocol/index.ts'
import native from '../native/index.ts'
import plugin from './index.ts'

export interface FolderNode {
  node: SvcNode
  inject(method: 'GET' | 'POST' | 'PUT' | 'DELETE', url: string, body?: object | string, namespace?: string): Promise<LightMyRequestResponse>
}

/** Starts a node over the directory. @throws what its start fails with; it is closed again then. */
export async function openNode(
  dataDir: string,
  more: Record<string, unknown> = {},
  others: readonly Plugin[] = [],
  plugins: readonly Plugin[] = [plugin, line, native],
): Promise<FolderNode> {
  const tree = {
    plugins: [],
    ...more,
    server: { multi_tenancy: true, http_addr: '127.0.0.1:0', ...(more.server as object) },
    database: { data_dir: dataDir, warm_up_ms: 0 },
  }
  const config = await resolveConfig({ tree: tree as never, file: 'the test', folder: dataDir, overrides: new Map() }, { plugins: [...plugins, ...others] })
  const node = new SvcNode(config, { logs: new Logs({ level: 'error', format: 'json', destination: { write() {} } }) })
  try {
    await node.setup()
    await node.start()
  } catch (error) {
    await node.stop()
    throw error
  }
  return {
    node,
    inject: (method, url, body, namespace = 'default') => {
      const type = typeof body === 'string' ? { 'content-type': 'text/plain' } : {}
      return node.app.inject({ method, url, ...(body === undefined ? {} : { payload: body }), headers: { 'x-namespace': namespace, ...type } })
    },
  }
}
