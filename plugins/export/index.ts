import { definePlugin, NAMESPACES, type NamespaceLifecycle } from 'svcdb'
import { configSchema } from './config.ts'
import { ExportFolders } from './folders.ts'
import { ExportHandler } from './handler.ts'
import { exportAnswer, exportBody, uncheckedBody } from './schemas.ts'

export default definePlugin({
  id: 'export',
  summary: 'Writes a measurement to a self-contained Parquet file on the server',
  stability: 'stable',
  config: configSchema,
  capabilities: ['export'],
  setup(svc, config) {
    const folders = new ExportFolders(config.directory, svc.dataDir, (namespace) => svc.find<NamespaceLifecycle>(NAMESPACES)?.get(namespace)?.quota)
    const handler = new ExportHandler(svc, config, folders)
    svc.start(() => svc.find<NamespaceLifecycle>(NAMESPACES)?.onDelete((namespace) => handler.forget(namespace), svc.id))
    const schema = {
      tags: ['export'],
      summary: 'Writes a measurement to a Parquet file on the server',
      body: exportBody,
      response: { 200: exportAnswer },
    }
    svc.http.post(
      '/api/v1/export/parquet',
      { config: { action: 'read', rawBody: ['application/json'] }, schema, validatorCompiler: uncheckedBody },
      (request, reply) => handler.export(request, reply),
    )
  },
})
