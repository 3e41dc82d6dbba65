// Why a call of the server failed.

import { IProblem, Reason } from './api';

/**
 * Besides the server's reasons. MISSING: the server extension is not enabled; NETWORK: the server does
 * not answer; DENIED: it refuses this user; STATUS: another error of HTTP, which is the message;
 * CLOSED: what was opened is closed already; OUTDATED: a part of this page is not there any more.
 * `failureText` has the texts.
 */
export type FailureReason =
  Reason | 'CLOSED' | 'DENIED' | 'MISSING' | 'NETWORK' | 'OUTDATED' | 'STATUS';

/** The names of the errors when a part of the page can't be loaded, which an upgrade has replaced. */
const LOADING_ERRORS = ['ChunkLoadError', 'ScriptExternalLoadError'];

/** Why a call failed. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly reason: FailureReason,
    readonly hint: string = '',
    /** Seconds after which it may succeed; null where Google does not say. */
    readonly retry_after: number | null = null,
    /** The server's name of the field that it refuses; "" if it is about no single one. */
    readonly field: string = ''
  ) {
    super(message);
    this.name = 'Failure';
  }

  /** A failure for a problem that the server reports. */
  static of(problem: IProblem): Failure {
    const { field, hint, message, reason, retry_after } = problem;
    return new Failure(message, reason, hint, retry_after, field);
  }

  /** Whether an error means that the server does not answer, to be set by the way it is called. */
  static isNetworkError: (error: unknown) => boolean = () => false;

  /** A failure for whatever was thrown. */
  static from(error: unknown): Failure {
    if (error instanceof Failure) {
      return error;
    }
    if (Failure.isNetworkError(error)) {
      return new Failure('', 'NETWORK');
    }
    if (error instanceof Error && LOADING_ERRORS.includes(error.name)) {
      return new Failure('', 'OUTDATED');
    }
    return new Failure(
      error instanceof Error ? error.message : String(error),
      'INTERNAL'
    );
  }
}

/** What a successful answer has; undefined if it is empty. */
export function bodyOf<T>(text: string): T {
  try {
    return (text ? JSON.parse(text) : undefined) as T;
  } catch {
    throw new Failure('', 'DENIED'); // the login page of a proxy
  }
}

/** What an exchange has answered. Throws `Failure`, also where there was no answer. */
export async function answerOf<T>(
  exchange: Promise<{ status: number; text: string }>
): Promise<T> {
  const { status, text } = await exchange.catch(() => {
    throw new Failure('', 'NETWORK');
  });
  if (status >= 200 && status < 300) {
    return bodyOf(text);
  }
  throw failureOf(status, text);
}

/** The failure that an error response describes: the extension's own, or Jupyter Server's. */
export function failureOf(status: number, text: string): Failure {
  let body: Partial<IProblem> = {};
  try {
    body = JSON.parse(text) as Partial<IProblem>;
  } catch {
    // Tornado's own error pages are HTML.
  }
  if (body && body.message && body.reason) {
    const problem = body as IProblem;
    // Jupyter's own routes have the hint in the message, too, since JupyterLab shows only that.
    const message = problem.hint
      ? problem.message.split(` ${problem.hint}`)[0]
      : problem.message;
    return Failure.of({ ...problem, message });
  }
  if (status === 404) {
    return new Failure('', 'MISSING');
  }
  if (status === 401 || status === 403) {
    return new Failure('', 'DENIED');
  }
  return body?.message
    ? new Failure(body.message, 'INTERNAL')
    : new Failure(String(status), 'STATUS');
}
