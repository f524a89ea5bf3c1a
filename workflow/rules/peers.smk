rule peer_environment:
    """Make the environment of another library from its lock file, apart from ours; one that cannot be made says why."""
    input:
        script="envs/install_peer.py",
        adapter="envs/peers/{library}.py",
    output:
        f"{RESULTS}/peers/{{library}}.json",
    log:
        f"{RESULTS}/logs/peers/{{library}}.log",
    wildcard_constraints:
        library=r"[^/]+",
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        python=sys.executable,
        locked=lambda wildcards: lock_hash(wildcards.library),
    shell:
        "{params.python:q} {input.script:q} {wildcards.library:q} {output:q} > {log:q} 2>&1"
