"""A stand-in for targetd: TLS, basic authentication, JSON-RPC, and the methods that our script calls, with the names and
error codes of targetd's API.md. It refuses what targetd refuses, and keeps its state in a file.

    targetd.py CERTIFICATE KEY STATE PASSWORD          prints its port
"""

import base64
import http.server
import json
import ssl
import sys
import uuid

certificate, key, state_file, password = sys.argv[1:]


class Refused(Exception):
    pass


def pool_of(name):
    if name not in ("vg-etcd", "vg-etcd/thin"):
        raise Refused(-110, "Invalid pool")
    return name.split("/")[0]


def vol_list(state, pool):
    pool_of(pool)
    return [dict(name=v["name"], size=v["size"], uuid=v["uuid"]) for v in state["volumes"]]


def vol_create(state, pool, name, size):
    pool_of(pool)
    if any(v["name"] == name for v in state["volumes"]):
        raise Refused(-50, "volume %s exists" % name)
    if not isinstance(size, int) or size <= 0:
        raise Refused(-32602, "invalid size")
    state["volumes"].append(dict(name=name, size=size, uuid=str(uuid.uuid4())))


def export_list(state):
    sizes = {v["name"]: (v["size"], v["uuid"]) for v in state["volumes"]}
    return [dict(e, vol_size=sizes.get(e["vol_name"], (0, ""))[0], vol_uuid=sizes.get(e["vol_name"], (0, ""))[1])
            for e in state["exports"]]


def export_create(state, pool, vol, initiator_wwn, lun):
    group = pool_of(pool)
    if not any(v["name"] == vol for v in state["volumes"]):
        raise Refused(-103, "Volume %s not found" % vol)
    if not isinstance(lun, int):
        raise Refused(-32602, "lun must be a number")
    state["exports"].append(dict(initiator_wwn=initiator_wwn, lun=lun, vol_name=vol, pool=group))


def initiator_set_auth(state, initiator_wwn, in_user, in_pass, out_user, out_pass):
    state["auth"][initiator_wwn] = dict(in_user=in_user, in_pass=in_pass, out_user=out_user, out_pass=out_pass)


METHODS = dict(vol_list=vol_list, vol_create=vol_create, export_list=export_list, export_create=export_create,
               initiator_set_auth=initiator_set_auth)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        account = self.headers.get("Authorization", "")[6:]
        if base64.b64decode(account).decode() != "admin:" + password:
            return self.send_error(401)
        if self.path != "/targetrpc":
            return self.send_error(404)
        with open(state_file) as file:
            state = json.load(file)
        answer = {"id": None}
        try:
            request = json.loads(body)
            answer["id"] = int(request["id"])
            if request["jsonrpc"] != "2.0" or request["method"] not in METHODS:
                raise Refused(-32601, "method not found")
            state["calls"].append(request["method"])
            if state.get("refuse") == request["method"]:
                raise Refused(-110, "Invalid pool")
            answer["result"] = METHODS[request["method"]](state, **(request.get("params") or {}))
        except Refused as refused:
            answer["error"] = dict(code=refused.args[0], message=refused.args[1])
        except TypeError:
            answer["error"] = dict(code=-32602, message="invalid method arguments(s)")
        except (ValueError, KeyError):
            answer["error"] = dict(code=-32600, message="not a valid jsonrpc-2.0 request")
        with open(state_file, "w") as file:
            json.dump(state, file)
        self.send_response(200)
        self.send_header("Content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
