/** Deletes of points, drops of measurements and what undoes them. */
import type { FastifyReply } from 'fastify'
import type { HttpRequest, Svc } from 'svcdb'
import { classify, logged, publicText, SvcError } from 'svcdb/lib/errors'
import type { NativeConfig } from './config.ts'
import { type Deletion, parseDelete, parseDeleteBatch } from './delete-body.ts'

interface DeleteAnswer {
  deleted: number
  segments_skipped: number
  /** Nothing was out of reach; a delete that is not complete has to be sent again. */
  complete: boolean
}

interface BatchItem {
  measurement: string
  /** null when the item failed. */
  deleted: number | null
  segments_skipped: number
  error?: string
}

export class DeleteHandler {
  private readonly svc: Svc
  private readonly config: NativeConfig

  constructor(svc: Svc, config: NativeConfig) {
    this.svc = svc
    this.config = config
  }

  delete(request: HttpRequest): Promise<DeleteAnswer> {
    return this.one(this.namespace(request), parseDelete(bodyOf(request), this.svc.clock.nowNanos()))
  }

  /** One after the other, in their order; one that fails does not stop those behind it. */
  async deleteBatch(request: HttpRequest): Promise<BatchItem[]> {
    const namespace = this.namespace(request)
    const answers: BatchItem[] = []
    for (const deletion of parseDeleteBatch(bodyOf(request), this.config.max_deletes_per_batch, this.svc.clock.nowNanos())) {
      const { measurement } = deletion
      try {
        const { deleted, segments_skipped } = await this.one(namespace, deletion)
        answers.push({ measurement, deleted, segments_skipped })
      } catch (error) {
        answers.push({ measurement, deleted: null, segments_skipped: 0, error: this.told(error, request) })
      }
    }
    return answers
  }

  async drop(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    await this.svc.storage.drop(this.namespace(request), nameOf(request), { final: this.svc.server.multi_tenancy })
    return reply.code(204).send()
  }

  async restore(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const name = nameOf(request)
    if (this.svc.server.multi_tenancy) {
      throw new SvcError('NOT_FOUND', `cannot restore measurement "${name.slice(0, 256)}": under [server] multi_tenancy a drop is final`)
    }
    await this.svc.storage.restore(this.namespace(request), name)
    return reply.code(204).send()
  }

  private async one(namespace: string, deletion: Deletion): Promise<DeleteAnswer> {
    const { series, segmentsSkipped } = await this.svc.storage.delete({ namespace, ...deletion })
    return { deleted: series, segments_skipped: segmentsSkipped, complete: segmentsSkipped === 0 }
  }

  /** The text of an item's failure. The answer is a 200, so a fault of the server is logged here. */
  private told(error: unknown, request: HttpRequest): string {
    const known = classify(error)
    const text = publicText(known)
    if (text !== known.message) this.svc.log.error({ err: logged(known), code: known.code, request_id: request.id }, 'cannot delete points')
    return text
  }

  private namespace(request: HttpRequest): string {
    return this.svc.context(request).dataNamespace
  }
}

function bodyOf(request: HttpRequest): Uint8Array {
  return (request.body as Buffer | undefined) ?? new Uint8Array(0)
}

function nameOf(request: HttpRequest): string {
  return (request.params as { name: string }).name
}
