from penstock.fabric.state cimport *
from penstock.sim.core.flow_setter cimport set_flow_result
from penstock.fabric.queueing_inline cimport set_event
from penstock.fabric.sampling cimport catch_up, start_sampling
from penstock.fabric.line cimport kick
from penstock.sim.core.agenda cimport forget_end, new_agenda, next_time, set_time
from penstock.sim.core.nodes cimport active_flows_of, chain_bytes, clear_queues, cut, empty_switch, flow_samples_of, link, new_nic, new_node
from penstock.sim.core.nodes cimport own_scheduling, paused_queues, set_loss, stopped_queues_of
from penstock.sim.core.pointers cimport add_flow_hook, add_frame_hook, add_packet_hook, add_queue_hook, add_ranking, add_single_hook
from penstock.sim.core.pointers cimport add_timer_hook
from penstock.sim.core.pointers cimport call_set_up, call_set_up_node, call_set_up_port, clear_area, fault_of, flow_results, free_world, hook_of
from penstock.sim.core.pointers cimport int8_table, int16_table, int32_table, int64_table, log_bytes, me_at, me_of, new_me, node_area
from penstock.sim.core.pointers cimport port_area, put_own_table, put_table, rows_of, run_released, set_fabric_hooks
from penstock.sim.core.pointers cimport set_parameter, set_places, start_table
from penstock.sim.core.sender cimport set_start_timer

cdef class Simulation:
    cdef World* world
    cdef object kept, kept_starts, kept_routes, installed
