/** An expression that is well formed and cannot be evaluated; the text is what the client reads (error type "execution"). */
export class ExecutionError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'ExecutionError'
  }
}
