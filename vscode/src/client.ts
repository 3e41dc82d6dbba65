// Requests to a Jupyter server, over Node's own HTTP: the panel's are for a browser.

import * as http from 'node:http';
import * as https from 'node:https';

import { language } from '../../labextension/src/language/translation';
import { addressOf } from '../../labextension/src/rest/address';
import { answerOf } from '../../labextension/src/rest/failure';
import {
  FleetRequests,
  IParameters,
  IReference
} from '../../labextension/src/rest/requests';
import { isOwn } from './portOwner';

/** A Jupyter server, and what it asks of a client. */
export interface IServer {
  /** Ends in "/". */
  url: string;
  token: string;
  /** 0: not known, because it is on another machine. */
  pid: number;
  /** The folder of its files, if that is known. */
  root?: string;
  /** Jupyter's own file about it, which only this user can read. */
  file?: string;
}

/** Where a server is, whatever its port: at an address that was given, or "", on this computer. */
export function placeOf({ pid, url }: IServer): string {
  return pid ? '' : url;
}

/** Milliseconds: some answers wait 20 seconds for news, and hosts are asked for others. */
const LIMIT = 90_000;

/** The most that an answer may have, in characters. */
const MOST = 64_000_000;

/** The server extension of one server. Every method throws `Failure`. */
export class NodeClient extends FleetRequests {
  constructor(readonly server: IServer) {
    super();
  }

  /** Ends the Jupyter server. */
  async shutDown(): Promise<void> {
    await this.jupyter('POST', 'shutdown');
  }

  /** Calls the Jupyter server's own interface: kernels, sessions. */
  jupyter<T>(
    method: string,
    path: string,
    body?: object,
    headers?: http.OutgoingHttpHeaders
  ): Promise<T> {
    const address = new URL(`api/${path}`, this.server.url).href;
    return answerOf(
      exchange(this.server, method, address, body, undefined, headers)
    );
  }

  protected send<T>(
    method: string,
    path: (string | IReference)[],
    { body, query, signal }: IParameters
  ): Promise<T> {
    const address = addressOf(this.server.url, path, query);
    return answerOf(exchange(this.server, method, address, body, signal));
  }
}

/** Node's WebSocket, which takes headers: so the token is in no address. */
type HeaderSocket = new (
  url: string,
  options: { protocols: string[]; headers: Record<string, string> }
) => WebSocket;

/** A websocket at *path* of a server; null: another user listens at its address now. */
export function openSocket(
  server: IServer,
  path: string,
  query: Record<string, string>,
  protocols: string[] = []
): WebSocket | null {
  if (!isOwn(server)) {
    return null;
  }
  const address = new URL(path, server.url);
  address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
  address.search = new URLSearchParams(query).toString();
  return new (WebSocket as unknown as HeaderSocket)(address.href, {
    protocols,
    headers: authorization(server)
  });
}

function authorization({ token }: IServer): Record<string, string> {
  return token ? { Authorization: `token ${token}` } : {};
}

/** Rejects where there is no answer, also because another user listens there: nothing is sent then. */
async function exchange(
  server: IServer,
  method: string,
  url: string,
  body?: object,
  signal?: AbortSignal,
  more: http.OutgoingHttpHeaders = {}
): Promise<{ status: number; text: string }> {
  if (!isOwn(server)) {
    throw new Error('Another user listens there.');
  }
  const data = body && JSON.stringify(body);
  const headers: http.OutgoingHttpHeaders = {
    ...more,
    'Accept-Language': language,
    ...authorization(server),
    ...(data
      ? {
          'Content-Type': 'application/json',
          'Content-Length': Buffer.byteLength(data)
        }
      : {})
  };
  const { request } = url.startsWith('https:') ? https : http;
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, signal }, answer => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (part: string) => {
        text += part;
        if (text.length > MOST) {
          sent.destroy(new Error('The answer is too long.'));
        }
      });
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }));
      answer.on('error', reject);
    });
    sent.setTimeout(LIMIT, () => sent.destroy(new Error('No answer.')));
    sent.on('error', reject);
    sent.end(data);
  });
}
